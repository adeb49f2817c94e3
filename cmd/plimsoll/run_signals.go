package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/operator"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

// seenCluster is the cluster, and remembers whose pods it was last seen to have: theirs are the
// pages that are scraped.
type seenCluster struct {
	*kube.Cluster
	pods atomic.Pointer[[]nodescaler.Pod]
}

// Observe returns the cluster as it is now.
func (w *seenCluster) Observe(ctx context.Context) (loop.ClusterState, error) {
	state, err := w.Cluster.Observe(ctx)
	if err == nil {
		w.pods.Store(&state.Pods)
	}
	return state, err
}

// pages are the pods whose own metrics may be scraped.
func (w *seenCluster) pages() []signals.Pod {
	last := w.pods.Load()
	if last == nil {
		return nil
	}
	addresses := w.Addresses()
	var all []signals.Pod
	for i := range *last {
		p := &(*last)[i]
		if at := addresses[p.Name]; at != "" && p.Workload != "" {
			all = append(all, signals.Pod{Workload: p.Workload, Name: p.Name, Address: at, Ready: p.Ready && !p.Terminating, Started: p.Started})
		}
	}
	return all
}

// usage reads what pods and their containers use from the cluster's resource metrics.
func usage(cfg *rest.Config) (*signals.Usage, error) {
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	host, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, err
	}
	return &signals.Usage{Client: client, Host: host.String()}, nil
}

// scaled are the namespaces that have a WorkloadAutoscaler. Pods' CPU matters nowhere else.
func (w *seenCluster) scaled() []string {
	all, err := w.Autoscalers()
	if err != nil {
		return nil // nothing is decided then
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = a.Namespace
	}
	return slices.Compact(names) // they are sorted
}

// sized are the namespaces with a WorkloadAutoscaler that looks at what containers request or use.
func (w *seenCluster) sized() map[string]bool {
	all, err := w.Autoscalers()
	if err != nil {
		return nil // nothing is decided then
	}
	sized := map[string]bool{}
	for _, a := range all {
		if a.Spec.Rightsize != nil || resources.ByContainer(&a.Spec.PolicySpec) {
			sized[a.Namespace] = true
		}
	}
	return sized
}

// signals measures the workloads that have a WorkloadAutoscaler.
func (r *clusterRun) signals() (operator.Signals, error) {
	client, host, err := secretReader(r.rest)
	if err != nil {
		return nil, err
	}
	o := r.signalOptions(client, host)
	o.Pods, o.NodePrices, o.Log = r.cluster.pages, r.nodePrices, r.logger()
	return signals.New(o), nil
}

// secretReader reads the Secrets that objects name, and says where the API server is. It does not
// wait in the line of the client's other calls: the Secrets of one namespace must not keep those of
// others from being read.
func secretReader(cfg *rest.Config) (typedv1.SecretsGetter, string, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.QPS, cfg.RateLimiter = -1, nil
	host, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, "", err
	}
	client, err := typedv1.NewForConfig(cfg)
	return client, host.String(), err
}

// prometheusCredentials are what a workload's Secret holds for its Prometheus, or its registry.
func prometheusCredentials(ctx context.Context, client typedv1.SecretsGetter, namespace, name string) (signals.Credentials, error) {
	if name == "" {
		return signals.Credentials{}, nil
	}
	secret, err := client.Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return signals.Credentials{}, fmt.Errorf("secret %s: %w", name, err)
	}
	c, err := credentialsOf(secret.Data)
	if err != nil {
		return signals.Credentials{}, fmt.Errorf("secret %s: %w", name, err)
	}
	return c, nil
}

// credentialsOf reads a Secret's data. What was made of a file often ends with a line break, with
// which no header can be sent.
func credentialsOf(data map[string][]byte) (signals.Credentials, error) {
	var faults []error
	line := func(key string) string {
		text := connect.Trimmed(data[key])
		if lines := len(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })); lines > 1 {
			faults = append(faults, pricing.NewFault(key, fmt.Sprintf("must be one line, and has %d", lines)))
		}
		return text
	}
	c := signals.Credentials{
		Token: line("token"), Username: line("username"), Password: line("password"),
		CA: data["ca.crt"], Cert: data["tls.crt"], Key: data["tls.key"],
	}
	return c, errors.Join(faults...)
}

// nodePrices is what the price book in force asks for each node that is one of our machines, an
// hour.
func (r *clusterRun) nodePrices() map[string]float64 {
	books, err := r.cluster.PriceBooks()
	if err != nil {
		return nil
	}
	for _, object := range books {
		if object.Name != r.PriceBook {
			continue
		}
		book, err := resources.Book(object)
		if err != nil {
			return nil
		}
		now, prices := r.env.Now(), map[string]float64{}
		for _, m := range r.links.Machines() {
			if m.Phase == nodescaler.Joined {
				prices[m.Name] = book.Rate(m.Shape, m.Host, now).Units()
			}
		}
		return prices
	}
	return nil
}
