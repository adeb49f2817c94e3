package costs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
)

// Look is a look at a cluster in which nodes are taken for machines, because their machines are not
// at hand.
type Look struct {
	Snapshot *nodescaler.Snapshot
	// Notes are what whoever reads the costs should know of how they came about.
	Notes []string
}

// Machines takes nodes for the machines that they are: those of Plimsoll's pools; without any, all
// but the control plane's; or all of them. A node has the shape that its pool has under its label,
// and else what it says it has.
func Machines(p *kube.Picture, book *pricing.Book, all bool, now time.Time) *Look {
	l := &Look{
		Snapshot: &nodescaler.Snapshot{
			Now: now, Prices: book, Pods: p.State.Pods, Budgets: p.State.Budgets, Nodes: slices.Clone(p.State.Nodes),
		},
	}
	for _, pool := range p.Pools {
		l.addPool(pool)
	}
	ours := slices.ContainsFunc(l.Snapshot.Nodes, func(n nodescaler.Node) bool { return n.Pool != "" })
	guessed, priced := 0, 0
	for i := range l.Snapshot.Nodes {
		n := &l.Snapshot.Nodes[i]
		n.Machine = ""
		if n.Pool == "" && !all && (ours || ControlPlane(n.Labels)) {
			continue
		}
		m, known := l.machine(n, p)
		if n.Machine = m.Name; !known {
			guessed++
		}
		priced++
		l.Snapshot.Machines = append(l.Snapshot.Machines, m)
	}
	for _, err := range p.Unread {
		l.note("could not be read, so that less is known of what could be done without: %v", err)
	}
	if !ours && !all && priced > 0 {
		l.note("no node is of a pool of Plimsoll's: all %d that are not of the control plane are priced", priced)
	}
	if guessed > 0 {
		l.note("%d of %d nodes are priced by the CPU and memory that they report; a machine has a little more memory than its node reports", guessed, priced)
	}
	return l
}

func (l *Look) note(format string, args ...any) {
	l.Notes = append(l.Notes, fmt.Sprintf(format, args...))
}

// addPool adds a pool with its minimum. A pool that is refused has nothing to say.
func (l *Look) addPool(pool *v1alpha1.VMPool) {
	words, err := resources.Pool(pool)
	if err != nil {
		l.note("VMPool %s is refused, and its shapes are not used: %s", pool.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
		return
	}
	l.Snapshot.Pools = append(l.Snapshot.Pools, words.Words())
}

// machine is what a node's machine must be, and whether its shape is known.
func (l *Look) machine(n *nodescaler.Node, p *kube.Picture) (m nodescaler.Machine, known bool) {
	size := p.Capacity[n.Name]
	m = nodescaler.Machine{
		Name: n.Name, ProviderID: p.ProviderIDs[n.Name], Pool: n.Pool, Phase: nodescaler.Joined, Created: n.Joined,
		Shape: pricing.Shape{Name: n.Labels[corev1.LabelInstanceTypeStable], CPU: size.CPU, Memory: size.Memory},
	}
	if n.Pool != "" && n.Draining && !n.Ready { // emptied, and silent since: it is stopped
		m.Phase = nodescaler.Spare
	}
	if zone := n.Labels[corev1.LabelTopologyZone]; zone != "" {
		if _, named := l.Snapshot.Prices.Hosts[zone]; named {
			m.Host = zone
		}
	}
	pool := l.pool(n.Pool)
	if pool == nil {
		return m, false
	}
	if len(pool.Hosts) == 1 {
		m.Host = pool.Hosts[0]
	}
	for _, s := range pool.Shapes {
		if s.Name == m.Shape.Name {
			m.Shape, known = s, true
		}
	}
	return m, known
}

func (l *Look) pool(name string) *nodescaler.Pool {
	for i := range l.Snapshot.Pools {
		if l.Snapshot.Pools[i].Name == name {
			return &l.Snapshot.Pools[i]
		}
	}
	return nil
}
