package nodescaler

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
)

// domainWorld is nodes in zones, and pods on them by rules of topology.
func domainWorld(t *rapid.T) *Snapshot {
	s := &Snapshot{}
	for i := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		n := Node{Name: fmt.Sprint("n", i), Ready: true, Labels: map[string]string{}}
		for _, key := range []string{"zone", "disk"} {
			if value := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, key); value != "" {
				n.Labels[key] = value
			}
		}
		n.Cordoned = rapid.IntRange(0, 4).Draw(t, "cordoned") == 0
		n.Draining = n.Cordoned && rapid.Bool().Draw(t, "draining")
		s.Nodes = append(s.Nodes, n)
	}
	marks := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"app=a", "app=b"}), 0, 2, rapid.ID)
	for i := range rapid.IntRange(1, 12).Draw(t, "pods") {
		p := Pod{Pod: podscaler.Pod{Name: fmt.Sprint("p", i)}, Has: marks.Draw(t, "has")}
		slices.Sort(p.Has)
		p.Terminating = rapid.IntRange(0, 5).Draw(t, "terminating") == 0
		for range rapid.IntRange(0, 2).Draw(t, "rules") {
			p.Topology = append(p.Topology, someTopology.Draw(t, "rule"))
		}
		if rapid.IntRange(0, 3).Draw(t, "selects") == 0 {
			p.Selector = map[string]string{"disk": "a"}
		}
		if rapid.IntRange(0, 3).Draw(t, "tolerates") == 0 {
			p.Tolerations = []Toleration{{Key: unschedulable.Key}}
		}
		if rapid.Bool().Draw(t, "placed") {
			p.Node = s.Nodes[rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "node")].Name
		}
		s.Pods = append(s.Pods, p)
	}
	return s
}

var someTopology = rapid.Custom(func(t *rapid.T) Topology {
	r := Topology{
		Key:     rapid.SampledFrom([]string{"zone", "disk", HostLabel}).Draw(t, "key"),
		Mark:    rapid.SampledFrom([]string{"app=a", "app=b"}).Draw(t, "mark"),
		AnyNode: rapid.Bool().Draw(t, "any node"), Tolerated: rapid.Bool().Draw(t, "tolerated"),
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		r.Together = true
	case 1:
	default:
		r.Skew, r.MinDomains = rapid.IntRange(1, 3).Draw(t, "skew"), rapid.IntRange(0, 3).Draw(t, "domains")
	}
	return r
})

// slowDomains answers from where pods are now, by the definitions of Kubernetes' rules.
type slowDomains struct {
	*Snapshot
	on               map[string]string // node by pod
	closed, cordoned map[string]bool
}

// counts reports whether the node counts for the rule, as it is by now.
func (s *slowDomains) counts(p *Pod, r *Topology, n *Node) bool {
	now := *n
	now.Cordoned = n.Cordoned || s.cordoned[n.Name]
	return r.Counts(p, &now)
}

func (s *slowDomains) refuses(p *Pod, n *Node) bool {
	for i := range s.Pods {
		other := &s.Pods[i]
		at := s.node(s.on[other.Name])
		if at == nil || other.Name == p.Name {
			continue
		}
		for _, r := range other.Topology {
			if !r.Together && r.Skew == 0 && slices.Contains(p.Has, r.Mark) && at.domain(r.Key) != "" && at.domain(r.Key) == n.domain(r.Key) {
				return true
			}
		}
	}
	return slices.ContainsFunc(p.Topology, func(r Topology) bool { return !s.allows(p, n, &r) })
}

func (s *slowDomains) node(name string) *Node {
	if i := slices.IndexFunc(s.Nodes, func(n Node) bool { return n.Name == name }); i >= 0 {
		return &s.Nodes[i]
	}
	return nil
}

// count is how many pods with the rule's mark are in the domain, or anywhere in any.
func (s *slowDomains) count(p *Pod, r *Topology, domain string) (n int) {
	for i := range s.Pods {
		other := &s.Pods[i]
		at := s.node(s.on[other.Name])
		if at == nil || !slices.Contains(other.Has, r.Mark) || r.Skew > 0 && other.Terminating || !s.counts(p, r, at) {
			continue
		}
		if is := at.domain(r.Key); is == domain || domain == "" {
			n++
		}
	}
	return n
}

func (s *slowDomains) allows(p *Pod, n *Node, r *Topology) bool {
	domain := n.domain(r.Key)
	switch {
	case r.Together && domain != "" && s.count(p, r, domain) == 0:
		return !slices.ContainsFunc(p.Topology, func(o Topology) bool {
			return o.Together && (s.count(p, &o, "") > 0 || !slices.Contains(p.Has, o.Mark))
		})
	case r.Together:
		return domain != ""
	case r.Skew == 0:
		return domain == "" || s.count(p, r, domain) == 0
	case domain == "":
		return false
	}
	least, domains := -1, map[string]bool{}
	for i := range s.Nodes {
		if at := &s.Nodes[i]; !s.closed[at.Name] && s.counts(p, r, at) {
			domains[at.domain(r.Key)] = true
			if is := s.count(p, r, at.domain(r.Key)); least < 0 || is < least {
				least = is
			}
		}
	}
	if len(domains) < max(r.MinDomains, 1) {
		least = 0
	}
	after := s.count(p, r, domain)
	if slices.Contains(p.Has, r.Mark) {
		after++
	}
	return after-least <= r.Skew
}

// The node of a spare, or of one that wakes, has no pods and keeps others from having more than the
// skew. Where only nodes count whose taints are tolerated, it does not.
func TestNodesOfSparesAreDomains(t *testing.T) {
	for _, phase := range []Phase{Spare, Booting} {
		for _, tolerated := range []bool{false, true} {
			rule := []Topology{{Key: HostLabel, Mark: "app=a", Skew: 1, Tolerated: tolerated}}
			s := &Snapshot{Nodes: []Node{{Name: "n1", Ready: true}, {Name: "n2", Machine: "n2", Cordoned: true, Draining: true}}}
			s.Machines = []Machine{{Name: "n2", Phase: phase, Keep: phase == Booting}}
			s.Pods = []Pod{
				{Pod: podscaler.Pod{Name: "p1"}, Node: "n1", Has: []string{"app=a"}, Topology: rule},
				{Pod: podscaler.Pod{Name: "p2"}, Unschedulable: true, Has: []string{"app=a"}, Topology: rule},
			}
			x := NewIndex(s)
			if got := NewDomains(x).Refuses(x.Pending[0], x.Nodes[0].Node); got == tolerated {
				t.Errorf("%s, tolerated alone %t: refused %t", phase, tolerated, got)
			}
		}
	}
}

// A node that is being emptied keeps others from having more than the skew as long as it is there,
// and so does one that would be emptied. Where only nodes count whose taints are tolerated, it does
// not.
func TestNodesThatAreEmptiedAreDomains(t *testing.T) {
	for _, draining := range []bool{true, false} {
		for _, tolerated := range []bool{false, true} {
			rule := []Topology{{Key: HostLabel, Mark: "app=a", Skew: 1, Tolerated: tolerated}}
			s := &Snapshot{Nodes: []Node{{Name: "n1", Ready: true}, {Name: "n2", Ready: true, Cordoned: draining, Draining: draining}}}
			s.Pods = []Pod{
				{Pod: podscaler.Pod{Name: "p1"}, Node: "n1", Has: []string{"app=a"}, Topology: rule},
				{Pod: podscaler.Pod{Name: "p2"}, Unschedulable: true, Has: []string{"app=a"}, Topology: rule},
			}
			x := NewIndex(s)
			d := NewDomains(x)
			uncordon := d.Cordon(x.Nodes[1].Node)
			if got := d.Refuses(x.Pending[0], x.Nodes[0].Node); got == tolerated {
				t.Errorf("draining %t, tolerated alone %t: refused %t", draining, tolerated, got)
			}
			if uncordon(); !draining && !d.Refuses(x.Pending[0], x.Nodes[0].Node) {
				t.Errorf("tolerated alone %t: not refused beside a node that is open", tolerated)
			}
			d.Close(x.Nodes[1].Node)
			if d.Refuses(x.Pending[0], x.Nodes[0].Node) {
				t.Errorf("draining %t, tolerated alone %t: refused beside a node that is gone", draining, tolerated)
			}
		}
	}
}

// However pods are moved and nodes cordoned and closed, what was counted on the way is what
// counting anew finds.
func TestDomainsCountAsPodsMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := domainWorld(t)
		slow := &slowDomains{s, map[string]string{}, map[string]bool{}, map[string]bool{}}
		for i := range s.Pods {
			slow.on[s.Pods[i].Name] = s.Pods[i].Node
		}
		x := NewIndex(s)
		d := NewDomains(x)
		reopen, uncordon := map[string]func(){}, map[string]func(){}
		var undo func()
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			p, n := &s.Pods[rapid.IntRange(0, len(s.Pods)-1).Draw(t, "pod")], &s.Nodes[rapid.IntRange(0, len(s.Nodes)-1).Draw(t, "to")]
			switch rapid.IntRange(0, 4).Draw(t, "step") {
			case 0:
				if at := slow.node(slow.on[p.Name]); at != nil {
					d.Put(p, at, -1)
					slow.on[p.Name] = ""
				} else {
					d.Put(p, n, 1)
					slow.on[p.Name] = n.Name
				}
			case 1:
				if slow.closed[n.Name] = !slow.closed[n.Name]; slow.closed[n.Name] {
					reopen[n.Name] = d.Close(n)
				} else {
					reopen[n.Name]()
				}
			case 2:
				if slow.cordoned[n.Name] = !slow.cordoned[n.Name]; slow.cordoned[n.Name] {
					uncordon[n.Name] = d.Cordon(n)
				} else {
					uncordon[n.Name]()
				}
			case 3:
				if undo != nil {
					undo()
					undo = nil
					continue
				}
				on, closed, cordoned, taken := maps.Clone(slow.on), maps.Clone(slow.closed), maps.Clone(slow.cordoned), d.Record()
				undo = func() {
					taken()
					slow.on, slow.closed, slow.cordoned = on, closed, cordoned
				}
			default:
				if slow.on[p.Name] != "" {
					continue // it would be beside itself
				}
				if got, want := d.Refuses(p, n), slow.refuses(p, n); got != want {
					t.Fatalf("%s with %+v on %s %v: refused %v, want %v", p.Name, p.Topology, n.Name, n.Labels, got, want)
				}
			}
		}
	})
}
