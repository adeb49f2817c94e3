package sight

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/targets"
)

// Sight is what one Observe saw that writing goes by: which things were meant by their names.
type Sight struct {
	Targets []targets.Target // sorted by workload
	pods    []*kept.Pod      // sorted by namespace/name
	// Of is the pods of targets, by workload.
	Of map[string][]*kept.Pod
	// Nodes are those that were there, by name.
	Nodes map[string]types.UID
	// Buffers are the CapacityBuffers that are served.
	Buffers []*Buffer
	// Ranges are what the LimitRanges of each namespace allow together.
	Ranges map[string]kept.LimitRange
}

// Target is the target of a workload, if it was seen.
func (s *Sight) Target(workload string) (*targets.Target, bool) {
	if s == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(s.Targets, workload, func(t targets.Target, name string) int { return strings.Compare(t.Workload, name) })
	if !ok {
		return nil, false
	}
	return &s.Targets[i], true
}

// Pod is a pod by namespace/name, if it was seen.
func (s *Sight) Pod(name string) (*kept.Pod, bool) {
	if s == nil {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(s.pods, name, func(p *kept.Pod, name string) int { return strings.Compare(p.Said.Name, name) })
	if !ok {
		return nil, false
	}
	return s.pods[i], true
}

// Another reports whether a node is another one than was observed under its name.
func (s *Sight) Another(name string, is types.UID) bool {
	if s == nil {
		return false
	}
	was, seen := s.Nodes[name]
	return seen && was != is
}

// sort puts the pods of each target together.
func (s *Sight) sort(said []nodescaler.Pod) {
	s.Of = make(map[string][]*kept.Pod, len(s.Targets))
	for i := range s.Targets {
		s.Of[s.Targets[i].Workload] = nil
	}
	for i, end := 0, 0; i < len(said); i = end { // those of a workload mostly follow one another
		for end = i + 1; end < len(said) && said[end].Workload == said[i].Workload; {
			end++
		}
		if of, is := s.Of[said[i].Workload]; is {
			s.Of[said[i].Workload] = append(of, s.pods[i:end]...)
		}
	}
}

// Lists are the copies of each kind. Nodes, volumes, disruptions, daemonSets and buffers are sorted
// by namespace and name. What could not be read is nil.
type Lists struct {
	Nodes                         []*kept.Node
	Pods                          []*kept.Pod
	Namespaces, Owners            []*metav1.PartialObjectMetadata
	Scaled                        []*kept.Scaled // Deployments and StatefulSets
	DaemonSets                    []*kept.DaemonSet
	Disruptions                   []*kept.Disruption
	Volumes                       []*kept.Volume
	Claims                        []*kept.Claim
	Classes                       []*kept.Class
	Attachables                   []*kept.Attachable
	Attachments                   []*kept.Attachment
	DeviceClaims, DeviceTemplates []*kept.DeviceClaim
	Publications                  []*kept.Published
	Templates                     []*kept.Template
	Buffers                       []*kept.Buffer
}
