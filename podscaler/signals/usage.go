package signals

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/podscaler"
)

// Usage reads what pods use from the resource metrics API (metrics.k8s.io).
type Usage struct {
	// Client carries the cluster's credentials, as rest.HTTPClientFor makes one.
	Client *http.Client
	// Host is the API server's address.
	Host string
	// Namespaces returns those that matter; all if it is nil or there are many of them.
	Namespaces func() []string
	// MaxBytes bounds an answer; 0 is 128 MiB.
	MaxBytes int64
}

// manyNamespaces is from where on one list of all pods costs less than one for each namespace.
const manyNamespaces = 10

// Pods returns each pod's CPU by namespace/name. Pods that the API does not speak of are not
// among them: their CPU is unknown. If a part of the namespaces could not be read, the others
// are returned beside the error.
func (u *Usage) Pods(ctx context.Context) (map[string]podscaler.Sample, error) {
	paths := []string{"/apis/metrics.k8s.io/v1beta1/pods"}
	if u.Namespaces != nil {
		if names := u.Namespaces(); len(names) < manyNamespaces {
			paths = nil
			for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
				paths = append(paths, "/apis/metrics.k8s.io/v1beta1/namespaces/"+n+"/pods")
			}
		}
	}
	pods := map[string]podscaler.Sample{}
	var errs []error
	for _, path := range paths {
		if err := u.list(ctx, path, pods); err != nil {
			errs = append(errs, fmt.Errorf("resource metrics %s: %w", path, err))
		}
	}
	return pods, errors.Join(errs...)
}

// podMetrics is the part of metrics.k8s.io/v1beta1 PodMetrics that is read.
type podMetrics struct {
	Metadata   struct{ Namespace, Name string }
	Timestamp  metav1.Time
	Window     metav1.Duration
	Containers []struct {
		Usage map[string]resource.Quantity
	}
}

func (u *Usage) list(ctx context.Context, path string, into map[string]podscaler.Sample) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(u.Host, "/")+path, nil)
	if err != nil {
		return plain(ctx, err)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := u.Client.Do(req)
	if err != nil {
		return plain(ctx, err)
	}
	most := u.MaxBytes
	if most == 0 {
		most = 128 << 20
	}
	body := &limited{body: resp.Body, left: most, limit: most}
	defer func() { _ = body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return refusal(resp, body)
	}
	var list struct{ Items []podMetrics }
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return plain(ctx, err)
	}
	for i := range list.Items {
		if m := &list.Items[i]; m.Metadata.Name != "" {
			if s := m.sample(); s.Known {
				into[m.Metadata.Namespace+"/"+m.Metadata.Name] = s
			}
		}
	}
	return nil
}

// refusal tells what the API server says, which is a Status where it is the one that answers.
func refusal(resp *http.Response, body io.Reader) error {
	var status metav1.Status
	if err := json.NewDecoder(io.LimitReader(body, 1<<16)).Decode(&status); err == nil && status.Message != "" {
		return fmt.Errorf("%s: %s", resp.Status, short(status.Message))
	}
	return errors.New(resp.Status)
}

// sample adds up a pod's containers. One of which a part was not measured is unknown.
func (m *podMetrics) sample() podscaler.Sample {
	if len(m.Containers) == 0 || m.Timestamp.IsZero() {
		return podscaler.Sample{}
	}
	cores := 0.0
	for _, c := range m.Containers {
		cpu, measured := c.Usage["cpu"]
		if !measured || cpu.Sign() < 0 {
			return podscaler.Sample{}
		}
		cores += cpu.AsApproximateFloat64()
	}
	return podscaler.Sample{Known: true, Value: cores, At: m.Timestamp.Time, Span: m.Window.Duration}
}
