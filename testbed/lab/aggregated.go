package lab

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// AggregatedAPI is a group and version that an API server of the lab serves.
type AggregatedAPI struct {
	Group, Version string // such as metrics.k8s.io, v1beta1
	Port           int    // on 127.0.0.1, HTTPS
	// CABundle is what signed its certificate, in PEM. The certificate must be for ServerName. If
	// it is empty, any certificate will do.
	CABundle []byte
}

// ServerName is what the API server expects the certificate to be for.
func (a AggregatedAPI) ServerName() string {
	return a.service() + "." + metav1.NamespaceSystem + ".svc"
}

func (a AggregatedAPI) service() string { return strings.ReplaceAll(a.Version+"-"+a.Group, ".", "-") }

var (
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
)

// Serve makes the control plane pass a group and version on to an API server at a loopback port, as
// it does to metrics-server in a cluster, and waits until it answers there. Requests come with the
// caller's name in the headers that the ConfigMap kube-system/extension-apiserver-authentication
// names, and with a certificate by which they can be believed.
//
// The way leads through a Service for the name localhost: Endpoints must not have
// loopback addresses, and without kube-proxy a cluster address leads nowhere.
func (l *Lab) Serve(ctx context.Context, api AggregatedAPI) error {
	client, err := dynamic.NewForConfig(l.REST())
	if err != nil {
		return err
	}
	if err := put(ctx, client.Resource(services).Namespace(metav1.NamespaceSystem), api.serviceObject()); err != nil {
		return err
	}
	if err := put(ctx, client.Resource(apiServices), api.apiServiceObject()); err != nil {
		return err
	}
	return api.await(ctx, client)
}

func (a AggregatedAPI) serviceObject() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": a.service(), "namespace": metav1.NamespaceSystem},
		"spec":     map[string]any{"type": "ExternalName", "externalName": "localhost"},
	}}
}

func (a AggregatedAPI) apiServiceObject() *unstructured.Unstructured {
	spec := map[string]any{
		"group": a.Group, "version": a.Version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
		"service": map[string]any{"name": a.service(), "namespace": metav1.NamespaceSystem, "port": int64(a.Port)},
	}
	if len(a.CABundle) > 0 {
		spec["caBundle"] = base64.StdEncoding.EncodeToString(a.CABundle)
	} else {
		spec["insecureSkipTLSVerify"] = true
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": a.Version + "." + a.Group},
		"spec":     spec,
	}}
}

// put makes an object, or makes one that is there like it.
func put(ctx context.Context, client dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	_, err := client.Create(ctx, o, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	old, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return err
	}
	o.SetResourceVersion(old.GetResourceVersion())
	_, err = client.Update(ctx, o, metav1.UpdateOptions{})
	return err
}

// await waits until the control plane says that the API server answers it.
func (a AggregatedAPI) await(ctx context.Context, client dynamic.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	name := a.Version + "." + a.Group
	for {
		o, err := client.Resource(apiServices).Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			var ok bool
			if ok, err = available(o); ok {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the API service %s: %w", name, errors.Join(context.Cause(ctx), err))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// available is whether an APIService is, and if not, why.
func available(o *unstructured.Unstructured) (bool, error) {
	conditions, _, err := unstructured.NestedSlice(o.Object, "status", "conditions")
	if err != nil {
		return false, err
	}
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Available" {
			return c["status"] == "True", fmt.Errorf("it is not available: %v", c["message"])
		}
	}
	return false, errors.New("nothing is known of it yet")
}
