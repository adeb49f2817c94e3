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
)

// An event about a pod is in the pod's namespace and refers to exactly that pod, once. Neither in
// mode ReadOnly nor for a pod with a node is an event sent.
func TestEventsAboutPods(t *testing.T) {
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
	waits := &pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1"}}
	runs := &pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-2", UID: "u2"}}
	runs.said.Node = "w-1"
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
		p.holds(t, pods, waits, runs)
		ctx, cancel := context.WithCancel(t.Context())
		go p.sendEvents(ctx)
		if is := p.AboutPod(c.pod, e); is != c.want {
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
			if p.AboutPod(c.pod, e) {
				t.Error("sent twice")
			}
		}
		cancel()
	}
}
