package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// podSite holds the versions of pods, and what is written as their deletion cost.
type podSite struct {
	mu       sync.Mutex
	versions map[string]string // by name
	refused  string            // a pod that may not be changed
	// rightless is that pods may not be patched at all, which was tried so many times.
	rightless bool
	patches   int
	written   []string
}

func (s *podSite) answer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var patch struct {
		Metadata struct {
			UID, ResourceVersion string
			Annotations          map[string]*string
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&patch)
	name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	version, there := s.versions[name]
	switch {
	case name == "selfsubjectaccessreviews":
		tell(w, map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "status": map[string]any{"allowed": !s.rightless}})
	case s.rightless:
		s.patches++
		deny(w, metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: `cannot patch resource "pods"`})
	case !there:
		deny(w, metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound})
	case name == s.refused:
		deny(w, metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "pods are not to be patched"})
	case patch.Metadata.UID != "u-"+name || patch.Metadata.ResourceVersion != version:
		deny(w, metav1.Status{Code: 409, Reason: metav1.StatusReasonConflict})
	default:
		for key, value := range patch.Metadata.Annotations {
			text := name + " " + key
			if value != nil {
				text += "=" + *value
			}
			s.written = append(s.written, text)
		}
		tell(w, map[string]any{"apiVersion": "v1", "kind": "Pod"})
	}
}

// marked is a pod of the Deployment web, with a deletion cost unless that is empty.
func marked(t *testing.T, name, cost string) *kept.Pod {
	t.Helper()
	annotations := ""
	if cost != "" {
		annotations = `annotations: {controller.kubernetes.io/pod-deletion-cost: "` + cost + `"}, `
	}
	return kept.ShortPod(written.Object[corev1.Pod](t, `metadata: {namespace: shop, name: `+name+`, uid: u-`+name+`, resourceVersion: "1", `+annotations+written.Owned+`}`))
}

// shop is a port that sees the pods, all of the Deployment web, before what a test has changed
// since.
func (s *podSite) shop(t *testing.T, all ...*kept.Pod) *Cluster {
	t.Helper()
	s.versions = map[string]string{"web-1": "1"}
	c := (&site{answer: s.answer}).port(t, Active)
	c.observes(t)
	for _, p := range all {
		s.versions[p.Name] = "1"
		c.holds(t, copies.Pods, p)
	}
	c.look(t.Context())
	c.leads(0)
	return c
}

func TestChosenPodsAreMarkedAndNoOthers(t *testing.T) {
	const cost = corev1.PodDeletionCost
	for name, c := range map[string]struct {
		chosen []string
		spoil  func(*podSite)
		want   []string
		err    error
	}{
		"those that are chosen, and an earlier choice is taken back": {chosen: []string{"shop/a", "shop/b"}, want: []string{"a " + cost + "=-1876", "ours " + cost}},
		"one that is marked is not marked again":                     {chosen: []string{"shop/ours"}},
		"none, and an earlier choice is taken back":                  {want: []string{"ours " + cost}},
		"one that another client has marked is not touched":          {chosen: []string{"shop/ours", "shop/theirs", "shop/cheap"}},
		"one of another workload is not marked":                      {chosen: []string{"shop/ours", "shop/stray"}},
		"one that is on its way out needs no mark":                   {chosen: []string{"shop/ours", "shop/going"}},
		"one that is gone needs none": {
			chosen: []string{"shop/a", "shop/b"}, spoil: func(s *podSite) { delete(s.versions, "a") }, want: []string{"ours " + cost},
		},
		"one that changed meanwhile is reported, and the others are marked": {
			chosen: []string{"shop/a", "shop/b"}, spoil: func(s *podSite) { s.versions["a"] = "2" }, want: []string{"ours " + cost}, err: ErrChanged,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &podSite{}
			stray := kept.ShortPod(written.Object[corev1.Pod](t, `metadata: {namespace: shop, name: stray, uid: u-stray, resourceVersion: "1",
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: other, uid: other, controller: true}]}`))
			going := marked(t, "going", "")
			going.Said.Terminating = true
			port := s.shop(t, marked(t, "a", ""), marked(t, "b", kept.DeletionCost), marked(t, "ours", kept.DeletionCost),
				marked(t, "theirs", "-10"), marked(t, "cheap", "0"), stray, going)
			if slices.Contains(c.chosen, "shop/ours") {
				c.chosen = append(c.chosen, "shop/b")
			}
			if c.chosen == nil {
				c.chosen = []string{"shop/b"}
			}
			if c.spoil != nil {
				c.spoil(s)
			}
			if err := port.Choose(t.Context(), "shop/web", c.chosen); !errors.Is(err, c.err) {
				t.Errorf("%v, want %v", err, c.err)
			}
			slices.Sort(s.written)
			if diff := cmp.Diff(c.want, s.written); diff != "" {
				t.Errorf("written, -want +got:\n%s", diff)
			}
		})
	}
}

// Scenario 34: pods of a StatefulSet go by their number, regardless of their annotations.
func TestPodsThatNoReplicaSetOwnsAreNotMarked(t *testing.T) {
	for _, owner := range []metav1.ObjectMeta{
		controlledBy("apps/v1", "StatefulSet", "web"), controlledBy("batch/v1", "Job", "web"), controlledBy("example.com/v1", "ReplicaSet", "web"), {},
	} {
		p, other := marked(t, "a", ""), marked(t, "b", kept.DeletionCost)
		p.OwnerReferences = owner.OwnerReferences
		if changes := remark([]*kept.Pod{other, p}, []string{"shop/a"}); changes != nil {
			t.Errorf("%v: %d pods are to be marked", owner.OwnerReferences, len(changes))
		}
	}
}

func TestRefusedMarksAreTold(t *testing.T) {
	s := &podSite{refused: "a"}
	c := s.shop(t, marked(t, "a", ""), marked(t, "b", ""))
	err := c.Choose(t.Context(), "shop/web", []string{"shop/a", "shop/b"})
	if err == nil || !strings.Contains(err.Error(), "choose pods of shop/web: pod shop/a: pods are not to be patched") {
		t.Errorf("%v", err)
	}
	if want := []string{"b " + corev1.PodDeletionCost + "=-1876"}; !slices.Equal(s.written, want) {
		t.Errorf("written %v, want %v", s.written, want)
	}
}

// The right to patch pods may be taken away: the product goes on without deletion costs, says so
// once, and does not ask for each pod of each step.
func TestWithoutTheRightToPatchPodsNothingIsMarked(t *testing.T) {
	s := &podSite{rightless: true}
	c := s.shop(t, marked(t, "a", ""), marked(t, "b", ""))
	var said bytes.Buffer
	c.log = slog.New(slog.NewTextHandler(&said, nil))
	for range 3 {
		must.Do(t, c.Choose(t.Context(), "shop/web", []string{"shop/a", "shop/b"}))
	}
	if n := strings.Count(said.String(), "pods may not be patched"); n != 1 || len(s.written) != 0 || s.patches != 2 {
		t.Errorf("said %d times, written %v, %d patches:\n%s", n, s.written, s.patches, said.String())
	}
	c.unmarked.since["shop"] = time.Now().Add(-deniedFor)
	s.rightless = false
	if err := c.Choose(t.Context(), "shop/web", []string{"shop/a", "shop/b"}); err != nil || len(s.written) != 2 {
		t.Errorf("with the right again: %v, written %v", err, s.written)
	}
}

func TestNothingIsMarkedForAWorkloadThatIsNotOursToScale(t *testing.T) {
	for name, spoil := range map[string]func(*Cluster){
		"it only recommends": func(c *Cluster) { c.holds(t, copies.Autoscalers, autoscaler("web", v1alpha1.ModeRecommend)) },
		"a HorizontalPodAutoscaler has it": func(c *Cluster) {
			c.holds(t, copies.HPAs, &kept.Rival{ObjectMeta: metav1.ObjectMeta{Name: "h"}, Kind: "HorizontalPodAutoscaler", Target: kept.Refer("shop", "apps/v1", "Deployment", "web")})
			c.look(t.Context())
		},
	} {
		s := &podSite{}
		c := s.shop(t, marked(t, "a", ""))
		spoil(c)
		if err := c.Choose(t.Context(), "shop/web", []string{"shop/a"}); !errors.Is(err, ErrConflicted) || len(s.written) > 0 {
			t.Errorf("%s: %v, written %v", name, err, s.written)
		}
	}
}
