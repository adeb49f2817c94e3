package loop

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

// Memory is what one step knows of those before. The zero Memory knows of none; all of it is safe
// to forget, which makes it slower to shrink and never faster.
type Memory struct {
	// Nodes decides on machines, by what it remembers itself; nil scales pods only.
	Nodes nodescaler.Policy
	// Jumped is when the clock jumped, if that is why almost everything else was forgotten.
	Jumped time.Time
	// Steps is the number of the last step. The ids of steps count on from it, so that each is once
	// in a journal.
	Steps int

	looked  bool // the cluster was seen once
	listed  bool // so were the machines
	scalers map[string]*scaler
	sizers  map[string]*rightsize.Sizer
	sized   time.Time // the last round of sizing
	account account
	leads   leads
	orders  []accepted
	refused refusals
	shown   shown
	gaps    gaps
	ordered ordered
	// recalled is whether ordered has what was ordered before the start.
	recalled bool
	helped   nodescaler.Unhelped
	prices   *pricing.Book
	asking   approval.Memory
	seen     []podscaler.Pod // room for what the next step's views see
}

// shown is the CPU and memory that nodes of each pool left to pods, where that was less than the
// pool says, and whether their zones were hosts and their types shapes. Without it, a machine would
// be ordered anew for a pod that fits on none of them each time that the last one has gone, or none
// for one that asks for a zone.
type shown map[string]shownBy

// shownBy is what nodes of one revision of their pool left to pods.
type shownBy struct {
	revision                string
	by                      map[pricing.Shape]pricing.Resources
	hostIsZone, shapeIsType bool
}

// onto returns the pools with what nodes of their revisions have shown.
func (s shown) onto(pools []nodescaler.Pool, revisions map[string]string) []nodescaler.Pool {
	if len(s) == 0 {
		return pools
	}
	pools = slices.Clone(pools) // they are the owner's
	for i := range pools {
		if was, is := s[pools[i].Name]; is && was.revision == revisions[pools[i].Name] {
			pools[i].Allocatable, pools[i].HostIsZone, pools[i].ShapeIsType = was.by, was.hostIsZone, was.shapeIsType
		}
	}
	return pools
}

// see remembers what the pools' nodes show where their owners say otherwise.
func (s *shown) see(x *nodescaler.Index, said []nodescaler.Pool, revisions map[string]string) {
	*s = nil
	for i := range said {
		p := x.Pool(said[i].Name)
		if len(p.Allocatable) == 0 && p.HostIsZone == said[i].HostIsZone && p.ShapeIsType == said[i].ShapeIsType {
			continue
		}
		if *s == nil {
			*s = shown{}
		}
		(*s)[p.Name] = shownBy{revisions[p.Name], p.Allocatable, p.HostIsZone, p.ShapeIsType}
	}
}

// Jump is the memory of a new start because the clock jumped: by such a clock nothing that was
// measured holds. The orders that quotas count are kept, or each jump would allow as many anew, and
// so is the number of the last step.
func (m *Memory) Jump(now time.Time) Memory {
	return Memory{Jumped: now, Steps: m.Steps, ordered: m.ordered, recalled: m.recalled}
}

// reprice lets machines cost what the book says from a moment on, if it is another one. What was
// spent in another unit cannot be added to, so the account begins anew.
func (m *Memory) reprice(b *pricing.Book, at time.Time) error {
	if m.prices == nil || b != m.prices && !reflect.DeepEqual(b, m.prices) {
		if l := m.account.ledger; l != nil && b.Unit != m.prices.Unit {
			m.account = account{}
		} else if l != nil {
			if err := l.Reprice(b, at); err != nil {
				return err
			}
		}
		m.prices = b
	}
	return nil
}

// scaler is a workload's scaler, and what it was made from.
type scaler struct {
	*podscaler.Scaler
	of    Workload
	hopes hopes
}

// orderGrace is how long an accepted order may take to show up in List. Until then it is counted
// as a machine by its acceptance, so that a lagging list buys nothing twice.
const orderGrace = 2 * time.Minute

// accepted is an order that Create took and List has not shown yet.
type accepted struct {
	machine nodescaler.Machine
	at      time.Time
}

// keep brings the scalers up to date with the workloads: one whose workload is as it was stays.
// What its pods request is what the newest do.
func (m *Memory) keep(workloads []Workload) (faults []error) {
	was := m.scalers
	m.scalers = make(map[string]*scaler, len(workloads))
	for i := range workloads {
		w := workloads[i]
		if w.Policy == nil {
			continue
		}
		s := was[w.Name]
		if s != nil && w.Pod == (pricing.Resources{}) {
			w.Pod = s.Workload().Pod // there is no pod to ask
		}
		if s == nil || !s.of.same(&w) {
			policy, err := w.Policy.New()
			if err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", w.Name, err))
				continue
			}
			s = &scaler{Scaler: podscaler.NewScaler(w.Workload, policy), of: w}
		}
		s.Requests(w.Pod)
		m.scalers[w.Name] = s
	}
	maps.DeleteFunc(m.leads.own, func(name string, _ nodescaler.Recent) bool { return m.scalers[name] == nil })
	return faults
}

// Due are the workloads whose turn it is to be decided for, of which the signals are to be read.
func (m *Memory) Due(o *Observation, in *Intent) (due []*podscaler.Workload) {
	if o.ClusterErr != nil {
		return nil
	}
	_ = m.keep(in.Workloads) // Decide reports the faults
	if !m.looked {
		return nil // the first step only looks
	}
	for i := range in.Workloads {
		s := m.scalers[in.Workloads[i].Name]
		if s == nil || s.New() || !s.Due(o.Time) {
			continue
		}
		if _, there := o.Cluster.Replicas[s.Workload().Name]; there {
			due = append(due, s.Workload())
		}
	}
	return due
}

// withOrders returns the listed machines and those that were ordered and are not listed yet.
func (m *Memory) withOrders(listed []nodescaler.Machine, now time.Time, step *Step) []nodescaler.Machine {
	if len(m.orders) == 0 {
		return listed
	}
	seen := make(map[string]bool, len(listed))
	for i := range listed {
		seen[listed[i].Order] = true
	}
	m.orders = slices.DeleteFunc(m.orders, func(a accepted) bool {
		if !seen[a.machine.Order] && now.Sub(a.at) > orderGrace {
			step.problem(CodeOrderLost, fmt.Sprintf("order %s was accepted %s ago and is not listed", a.machine.Order, now.Sub(a.at)))
			return true
		}
		return seen[a.machine.Order]
	})
	if len(m.orders) == 0 {
		return listed
	}
	all := slices.Clone(listed)
	for _, a := range m.orders {
		all = append(all, a.machine)
	}
	slices.SortFunc(all, func(a, b nodescaler.Machine) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Learn takes in what came of a step.
func (m *Memory) Learn(s *Step) {
	for i := range s.Workloads {
		if done := s.Resized(&s.Workloads[i]); done != nil {
			m.sizers[s.Workloads[i].Workload].Done(*done)
		}
	}
	for i := range s.Outcomes {
		o := &s.Outcomes[i]
		if o.Action < 0 || o.Held != nil {
			continue
		}
		switch a := &s.Plan.Actions[o.Action]; a.Kind {
		case nodescaler.Buy:
			m.bought(a, o, s.Time)
		case nodescaler.Stash, nodescaler.Wake:
			if o.Error == "" {
				m.ordered.note(a.For, s.Time)
			}
		case nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.DeletePod, nodescaler.Return, nodescaler.Reboot:
		}
	}
}

func (m *Memory) bought(a *nodescaler.Action, o *Outcome, now time.Time) {
	if o.Refused != "" {
		m.refused.note(a, o, now)
		return
	}
	if o.Error == "" {
		m.refused.taken(a)
	}
	m.ordered.note(a.For, now)
	m.orders = append(m.orders, accepted{at: now, machine: nodescaler.Machine{
		Name: nodescaler.MachineName(a.Pool, a.Order), Order: a.Order, Pool: a.Pool, Shape: *a.Shape,
		Host: a.Host, Phase: nodescaler.Ordered, Since: now, Keep: a.Keep,
	}})
}

// ordered is for which namespaces machines were ordered in the last hour, of those that have
// quotas. A restart forgets it: then a machine that was made in that time counts for those whose
// pods it carries.
type ordered []orderedFor

type orderedFor struct {
	namespace string
	at        time.Time
}

func (o *ordered) note(namespaces []string, at time.Time) {
	for _, n := range namespaces {
		*o = append(*o, orderedFor{n, at})
	}
}

// recall works out what was ordered before the start.
func (o *ordered) recall(x *nodescaler.Index) {
	for _, m := range x.Machines {
		n := x.NodeOf(m.Name)
		if n == nil || x.Now.Sub(m.Created) >= time.Hour {
			continue
		}
		var namespaces []string
		for _, p := range n.Pods {
			if p.Counts() && x.QuotaOf(p.Namespace()) != nil {
				namespaces = append(namespaces, p.Namespace())
			}
		}
		slices.Sort(namespaces)
		o.note(slices.Compact(namespaces), m.Created)
	}
}

// count is how many machines were ordered for each namespace in the hour before now. By a clock
// that was put back they were ordered just now.
func (o *ordered) count(now time.Time) map[string]int {
	*o = slices.DeleteFunc(*o, func(f orderedFor) bool { return now.Sub(f.at) >= time.Hour })
	by := map[string]int{}
	for i := range *o {
		f := &(*o)[i]
		if f.at.After(now) {
			f.at = now
		}
		by[f.namespace]++
	}
	return by
}
