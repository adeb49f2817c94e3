package sight

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// shown is what a test has to be seen.
type shown struct {
	Lists
	machine func(*corev1.Node) (machine, pool string)
	now     time.Time
}

// holds adds objects as the API server has them. Those with metadata alone are namespaces.
func (s *shown) holds(t testing.TB, all ...any) {
	t.Helper()
	for _, o := range all {
		short := must.Get(kept.Keep(o))(t)
		switch o := short.(type) {
		case *kept.Node:
			s.Nodes = append(s.Nodes, o)
		case *kept.Pod:
			s.Pods = append(s.Pods, o)
		case *metav1.PartialObjectMetadata:
			s.Namespaces = append(s.Namespaces, o)
		case *kept.DaemonSet:
			s.DaemonSets = append(s.DaemonSets, o)
		case *kept.Volume:
			s.Volumes = append(s.Volumes, o)
		case *kept.Claim:
			s.Claims = append(s.Claims, o)
		case *kept.Class:
			s.Classes = append(s.Classes, o)
		case *kept.Attachable:
			s.Attachables = append(s.Attachables, o)
		default:
			t.Fatalf("a %T is not shown", o)
		}
	}
}

// look is what is seen.
func (s *shown) look() loop.ClusterState {
	of, machine := s.Lists, s.machine
	of.Pods = slices.Clone(of.Pods)
	if machine == nil {
		machine = func(*corev1.Node) (string, string) { return "", "" }
	}
	state, _ := Look(&of, nil, nil, machine, s.now)
	return state
}
