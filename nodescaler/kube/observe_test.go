package kube

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// still is a port that sends no request.
func still(t testing.TB) *Cluster {
	t.Helper()
	return must.Get(New(Config{REST: &rest.Config{Host: "http://127.0.0.1:1"}}))(t)
}

func controlledBy(apiVersion, kind, name string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(kind + "-" + name), Controller: &yes},
	}}
}

// something is a copy with an owner, or none.
func something(kind, name string, m metav1.ObjectMeta) metav1.ObjectMeta {
	m.Namespace, m.Name, m.UID = "shop", name, types.UID(kind+"-"+name)
	return m
}

func TestNothingIsReadBeforeThereIsAPicture(t *testing.T) {
	c := (&site{answer: func(w http.ResponseWriter, _ *http.Request) { deny(w, metav1.Status{Code: 503}) }}).port(t, Active)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Synced(ctx); !errors.Is(err, ErrStale) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("synced: %v", err)
	}
	_, observed := c.Observe(t.Context())
	_, targets := c.Targets(t.Context())
	_, autoscalers := c.Autoscalers()
	_, nodes := c.Nodes(t.Context())
	for what, err := range map[string]error{"observed": observed, "targets": targets, "autoscalers": autoscalers, "nodes": nodes} {
		if !errors.Is(err, ErrStale) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
