package kube

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// eventSite is an API server that takes events, and the events that it was sent.
func eventSite(t *testing.T) (*site, <-chan eventsv1.Event) {
	got := make(chan eventsv1.Event, 9)
	s := &site{answer: func(w http.ResponseWriter, r *http.Request) {
		var e eventsv1.Event
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &e)
		}
		if err != nil {
			t.Error(err)
		}
		got <- e
		tell(w, e)
	}}
	return s, got
}

// An event about a pod is in the pod's namespace and refers to exactly that pod, once. Neither in
// mode ReadOnly nor for a pod with a node is an event sent.
func TestEventsAboutPods(t *testing.T) {
	s, got := eventSite(t)
	waits := &kept.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1"}}
	runs := &kept.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-2", UID: "u2"}}
	runs.Said.Node = "w-1"
	e := Event{About: "Wait", Warning: true, Reason: "PoolAtMax", Note: "no machine is ordered for it"}
	for _, c := range []struct {
		mode Mode
		pod  string
		want bool
	}{
		{ReadOnly, "shop/web-1", false},
		{Recommend, "shop/web-1", true},
		{Recommend, "shop/web-2", false},
		{Recommend, "shop/gone", false},
	} {
		p := s.port(t, c.mode)
		p.leads(0)
		p.holds(t, copies.Pods, waits, runs)
		ctx, cancel := context.WithCancel(t.Context())
		go p.sendEvents(ctx)
		if is := p.AboutPod(c.pod, "", e); is != c.want {
			t.Errorf("%s %s: sent %v, want %v", c.mode, c.pod, is, c.want)
		}
		if c.want {
			select {
			case is := <-got:
				r := is.Regarding
				if is.Namespace != "shop" || r.Kind != "Pod" || r.APIVersion != "v1" || r.Namespace != "shop" || r.Name != "web-1" || r.UID != "u1" || is.Reason != "PoolAtMax" || is.Type != "Warning" || is.Action != "Wait" {
					t.Errorf("%+v", is)
				}
			case <-time.After(20 * time.Second):
				t.Error("nothing was sent")
			}
			if p.AboutPod(c.pod, "", e) {
				t.Error("sent twice")
			}
		}
		cancel()
	}
}

// A pod's event says on which node it has to be, and a node's is about that node.
func TestEventsAboutNodesAndTheirPods(t *testing.T) {
	s, got := eventSite(t)
	p := s.port(t, Active)
	p.leads(0)
	runs := &kept.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u1"}}
	runs.Said.Node = "w-1"
	p.holds(t, copies.Pods, runs)
	p.holds(t, copies.Nodes, &kept.Node{ObjectMeta: metav1.ObjectMeta{Name: "w-1", UID: "n1"}})
	go p.sendEvents(t.Context())
	e := Event{About: "ScaleDown", Reason: "ScaleDown", Action: "Evict", Note: "evicted"}
	if p.AboutPod("shop/web", "w-2", e) || p.AboutPod("shop/web", "", e) || p.AboutNode("w-2", e) {
		t.Error("something is said of what is not there")
	}
	if !p.AboutPod("shop/web", "w-1", e) || !p.AboutNode("w-1", e) || p.AboutNode("w-1", e) {
		t.Error("not said once")
	}
	e.Action = "Return"
	if !p.AboutNode("w-1", e) {
		t.Error("another action is not said")
	}
	for _, want := range []string{"Pod shop web Evict", "Node default w-1 Evict", "Node default w-1 Return"} {
		select {
		case is := <-got:
			if is := is.Regarding.Kind + " " + is.Namespace + " " + is.Regarding.Name + " " + is.Action; is != want {
				t.Errorf("%s, want %s", is, want)
			}
		case <-time.After(20 * time.Second):
			t.Fatal("nothing was sent")
		}
	}
}
