package loop

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// HostLoad is how far a host is loaded.
type HostLoad struct {
	Name     string            `json:"name"`
	Online   bool              `json:"online"`
	Room     pricing.Resources `json:"room"`
	Machines []MachineLoad     `json:"machines,omitempty"`
}

// MachineLoad is a machine and what its pods ask of it.
type MachineLoad struct {
	Name     string            `json:"name"`
	Pool     string            `json:"pool,omitempty"`
	Phase    nodescaler.Phase  `json:"phase"`
	Shape    pricing.Shape     `json:"shape"`
	Rate     pricing.Rate      `json:"rate,omitempty"` // without its share of the host's price
	Pods     int               `json:"pods"`
	Requests pricing.Resources `json:"requests"`
	Draining bool              `json:"draining,omitempty"`
	// it is paid for since; zero if it was only ordered
	Created time.Time `json:"created,omitzero"`
}

// loads says how far every host and machine is filled.
func loads(s *nodescaler.Snapshot) []HostLoad {
	type use struct {
		pods     int
		requests pricing.Resources
	}
	used := make(map[string]*use, len(s.Nodes))
	nodes := make(map[string]*nodescaler.Node, len(s.Nodes))
	for i := range s.Nodes {
		used[s.Nodes[i].Name], nodes[s.Nodes[i].Machine] = &use{}, &s.Nodes[i]
	}
	for i := range s.Pods {
		if u := used[s.Pods[i].Node]; u != nil {
			u.pods, u.requests = u.pods+1, u.requests.Plus(s.Pods[i].Requests)
		}
	}
	hosts := make([]HostLoad, len(s.Hosts))
	at := make(map[string]*HostLoad, len(s.Hosts))
	rates := make(map[pricing.Placed]pricing.Rate) // many machines are alike
	for i := range s.Hosts {
		h := &s.Hosts[i]
		hosts[i] = HostLoad{Name: h.Name, Online: h.Online, Room: h.Room}
		at[h.Name] = &hosts[i]
	}
	for i := range s.Machines {
		m := &s.Machines[i]
		h, ok := at[m.Host]
		if !ok {
			continue
		}
		l := MachineLoad{Name: m.Name, Pool: m.Pool, Phase: m.Phase, Shape: m.Shape, Rate: rateOf(s, m, rates), Created: m.Created}
		if n := nodes[m.Name]; n != nil {
			l.Pods, l.Requests, l.Draining = used[n.Name].pods, used[n.Name].requests, n.Draining
		}
		h.Machines = append(h.Machines, l)
	}
	return hosts
}

// rateOf is what a machine costs an hour. A spare costs its disk.
func rateOf(s *nodescaler.Snapshot, m *nodescaler.Machine, known map[pricing.Placed]pricing.Rate) pricing.Rate {
	p := pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare}
	rate, ok := known[p]
	switch {
	case ok:
	case p.Stopped:
		rate = s.Prices.SpareRate(p.Shape)
	default:
		rate = s.Prices.Rate(p.Shape, p.Host, s.Now)
	}
	known[p] = rate
	return rate
}

// NamespaceLoad is what the machines under a namespace's pods cost an hour.
type NamespaceLoad struct {
	Namespace string `json:"namespace"`
	// Allocated is for what its pods request, Idle its share of what no pod on the same machines
	// requests.
	Allocated pricing.Rate `json:"allocated"`
	Idle      pricing.Rate `json:"idle"`
}

// tenant is what the pods of a namespace request of one machine.
type tenant struct {
	namespace string
	requests  pricing.Resources
}

// namespaces divides the price of each joined machine among the namespaces of its pods: by what
// they request of CPU or memory, whichever is the larger part. A machine without pods is no one's.
func namespaces(s *nodescaler.Snapshot) []NamespaceLoad {
	on := make(map[string][]tenant, len(s.Nodes)) // by node; pods are sorted, and so are these
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Node == "" {
			continue
		}
		name, _, _ := strings.Cut(p.Name, "/")
		all := on[p.Node]
		if n := len(all); n == 0 || all[n-1].namespace != name {
			all = append(all, tenant{namespace: name})
		}
		all[len(all)-1].requests = all[len(all)-1].requests.Plus(p.Requests)
		on[p.Node] = all
	}
	nodes := make(map[string]string, len(s.Nodes)) // by machine
	for i := range s.Nodes {
		nodes[s.Nodes[i].Machine] = s.Nodes[i].Name
	}
	var shares []NamespaceLoad
	rates := make(map[pricing.Placed]pricing.Rate)
	for i := range s.Machines {
		if m := &s.Machines[i]; m.Phase == nodescaler.Joined && m.Shape.CPU > 0 && m.Shape.Memory > 0 {
			shares = divide(shares, on[nodes[m.Name]], m.Shape, rateOf(s, m, rates))
		}
	}
	return shares
}

// divide adds a machine's price to the shares of its tenants.
func divide(shares []NamespaceLoad, tenants []tenant, shape pricing.Shape, rate pricing.Rate) []NamespaceLoad {
	part := func(r pricing.Resources) float64 {
		return max(float64(r.CPU)/float64(shape.CPU), float64(r.Memory)/float64(shape.Memory))
	}
	var all pricing.Resources
	parts := 0.0
	for i := range tenants {
		all, parts = all.Plus(tenants[i].requests), parts+part(tenants[i].requests)
	}
	asked := min(1, part(all))
	for i := range tenants {
		t := &tenants[i]
		own := 1 / float64(len(tenants)) // of pods that request nothing
		if parts > 0 {
			own = part(t.requests) / parts
		}
		at, there := slices.BinarySearchFunc(shares, t.namespace, func(n NamespaceLoad, name string) int { return cmp.Compare(n.Namespace, name) })
		if !there {
			shares = slices.Insert(shares, at, NamespaceLoad{Namespace: t.namespace})
		}
		shares[at].Allocated += pricing.Rate(math.Round(own * asked * float64(rate)))
		shares[at].Idle += pricing.Rate(math.Round(own * (1 - asked) * float64(rate)))
	}
	return shares
}
