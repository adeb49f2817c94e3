package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// called looks at what is done to machines: none that carries pods goes before it was drained. It
// is called by the emulator, which must not be asked meanwhile.
func (l *life) called(c pvesim.Call) {
	what := c.Method + " " + kindOfCall(c.Path)
	if c.Status >= 400 || c.Status == 0 {
		what += ", failed"
	}
	l.meet(what, c.At)
	if !strings.HasPrefix(c.User, "plimsoll@pve") || c.Method == http.MethodGet || c.Status >= 400 {
		return
	}
	var id int
	if i := strings.Index(c.Path, "/qemu/"); i < 0 {
		return
	} else if _, err := fmt.Sscanf(c.Path[i:], "/qemu/%d", &id); err != nil {
		return
	}
	ends := c.Method == http.MethodDelete || strings.HasSuffix(c.Path, "/status/stop") || strings.HasSuffix(c.Path, "/status/shutdown")
	if clones := strings.HasSuffix(c.Path, "/clone"); !clones && (id < 1000 || id > 1099) || l.theirs[id] && ends {
		l.faultAt(c.At, "%s %s: it is not ours", c.Method, c.Path)
	}
	if name := l.ids[id]; ends && !l.ends[name] && (c.Method == http.MethodDelete || !l.restarts[name]) {
		l.faultAt(c.At, "%s %s: neither the journal nor an event says why %q goes", c.Method, c.Path, name)
	}
	for _, n := range l.nodes {
		if n.vmid != id || !ends || !n.Ready { // as the cluster shows it
			continue
		}
		for _, p := range l.pods {
			if p.node == n.Name && p.ends.IsZero() {
				l.faultAt(c.At, "%s %s: its node %s is ready and carries %s", c.Method, c.Path, n.Name, p.name)
			}
		}
	}
}

// machines are those of the pool that are ours.
func (l *life) machines() (all []pvesim.VMState) {
	for _, v := range l.sim.Inventory().VMs {
		if v.ID >= 1000 && v.ID <= 1099 && !l.theirs[v.ID] {
			all = append(all, v)
		}
	}
	return all
}

// always is what holds at every moment.
func (l *life) always() {
	var ours []pvesim.VMState
	for _, v := range l.there.VMs {
		if strings.HasPrefix(v.Config["name"], "foreign-") { // took an ID before us
			l.theirs[v.ID] = true
		}
		if v.ID >= 9000 && v.Config["template"] != "1" {
			l.fault("template %d is none any more", v.ID)
		}
		if v.ID < 1000 || v.ID > 1099 || l.theirs[v.ID] {
			continue
		}
		ours = append(ours, v)
		if order, named := strings.CutPrefix(v.Config["name"], "aa-"); named && !l.orders[order] {
			l.fault("machine %d (%s) is of no order in the journal", v.ID, v.Config["name"])
		}
	}
	// A process that does not know what another one has made counts only what runs.
	counts := slices.DeleteFunc(slices.Clone(ours), func(v pvesim.VMState) bool { return l.separate && v.State != "running" })
	if len(counts) > l.most {
		l.fault("there are %d machines of at most %d", len(counts), l.most)
	}
	if rate := l.cost(ours); !l.separate && l.cfg.Limit > 0 && rate > l.cfg.Limit {
		l.fault("all machines cost %s an hour, of at most %s", rate, l.cfg.Limit)
	}
	l.placed()
}

// cost is what machines cost an hour, with their hosts. Spares cost their disks.
func (l *life) cost(machines []pvesim.VMState) pricing.Rate {
	if l.cfg.Limit == 0 {
		return 0
	}
	spare, known := l.spares()
	if !known {
		return 0
	}
	var all []pricing.Placed
	for _, v := range machines {
		all = append(all, pricing.Placed{Shape: townShapes[v.Config["cores"]], Host: v.Host, Stopped: v.State == "stopped" && spare[v.Config["name"]]})
	}
	return l.book().Total(all, l.sim.Now())
}

// spares are the machines that are kept stopped, by name; false if they cannot be listed now.
func (l *life) spares() (spare map[string]bool, known bool) {
	state, err := l.fleet.List(context.Background())
	if err != nil {
		return nil, false
	}
	spare = map[string]bool{}
	for i := range state.Machines {
		spare[state.Machines[i].Name] = state.Machines[i].Phase == nodescaler.Spare
	}
	return spare, true
}

func (l *life) book() *pricing.Book { return cmp.Or(l.term.prices, pricing.DefaultBook()) }

// placed checks, once all has been calm for placedIn, that no pod has waited for longer that
// can have had a place for a while.
func (l *life) placed() {
	calm := l.sim.Now().Sub(t0.Add(troubleFor))
	if calm < placedIn-onItsWay { // what may not be ordered from then on has no place at placedIn
		return
	}
	for _, p := range l.pods {
		if p.node != "" || !p.ends.IsZero() || l.sim.Now().Sub(p.created) <= placedIn {
			continue
		}
		if !l.mayOrder() {
			l.mayNot = l.sim.Now()
		} else if calm >= placedIn && l.sim.Now().Sub(l.mayNot) > onItsWay {
			l.fault("%s waits since %s: %+v", p.name, l.sim.Now().Sub(p.created), l.last.Plan)
		}
		return
	}
}

// mayOrder reports whether a machine of any shape may be ordered. Machines that people have
// taken count as well.
func (l *life) mayOrder() bool {
	state, err := l.fleet.List(context.Background())
	if err != nil || len(state.Machines)+l.unlisted(&state) >= int(l.pools["aa"].Spec.Max) || l.backsOff() {
		return false
	}
	if len(l.cfg.Quotas) > 0 {
		on, q := 0, l.cfg.Quotas[0]
		for _, p := range l.pods {
			if p.node != "" { // those that are asked to go, too
				on++
			}
		}
		// A new process counts other orders of the last hour.
		if on >= q.Replicas || len(l.orders) >= q.Orders {
			return false
		}
	}
	if l.cfg.Limit == 0 {
		return true
	}
	var all []pricing.Placed
	for i := range state.Machines {
		m := &state.Machines[i]
		all = append(all, pricing.Placed{Shape: m.Shape, Host: m.Host, Stopped: m.Phase == nodescaler.Spare})
	}
	dear, at := pricing.Rate(0), l.sim.Now()
	for _, h := range []string{"pve1", "pve2", "pve3"} {
		dear = max(dear, l.book().Rate(townShapes["4"], h, at)+l.book().HostRate(h, at))
	}
	return l.book().Total(all, at)+dear <= l.cfg.Limit
}

// backsOff reports whether no machine is ordered for a while since others failed, as
// cluster-autoscaler does it: for half an hour at most.
func (l *life) backsOff() bool {
	return slices.ContainsFunc(l.last.Plan.Reasons, func(r nodescaler.Reason) bool { return r.Code == nodescaler.PoolBackingOff })
}

// unlisted are machines that this process does not list: another process has made them, or a person
// has restored them under another VMID. They count where the maximum is near.
func (l *life) unlisted(state *loop.MachineState) (n int) {
	listed := map[string]bool{}
	for i := range state.Machines {
		listed[state.Machines[i].Name] = true
	}
	for _, v := range l.there.VMs {
		if name := v.Config["name"]; listed[name] {
			delete(listed, name)
		} else if strings.HasPrefix(name, "aa-") {
			n++
		}
	}
	return n
}

// orderedFor is how many machines this process has ordered for a namespace in the last hour.
func (l *life) orderedFor(namespace string) (n int) {
	for _, o := range l.boughtFor[namespace] {
		if l.now().Sub(o) < time.Hour {
			n++
		}
	}
	return n
}

// Append is the journal: every record is looked at.
func (l *life) Append(s *loop.Step) error {
	l.last = *s
	l.take()
	hear(s)
	for i := range s.Plan.Actions {
		if o := s.Tried(i); o != nil && o.Held == nil {
			l.said["action "+string(s.Plan.Actions[i].Kind)]++
			if n := l.node(s.Plan.Actions[i].Node); n != nil && !n.Ready && s.Plan.Actions[i].Kind == nodescaler.Reboot {
				l.said["undrained reboot"]++
			}
		}
	}
	for _, p := range s.Problems {
		if p.Code == loop.CodePlanRefused || p.Code == loop.CodeCostUnknown {
			l.fault("%s: %s", s.ID, p)
		}
	}
	l.explained(s)
	l.approvedFirst(s)
	for i := range s.Plan.Actions {
		a := &s.Plan.Actions[i]
		if len(a.Reasons) == 0 || a.Reasons[0].Code == "" || a.Reasons[0].Text == "" {
			l.fault("%s: %s %s has no reason", s.ID, a.Kind, subject(a))
		}
		if o := s.Tried(i); o != nil && o.Held == nil {
			l.note("%s %s %s %s: %s", s.ID, a.Kind, subject(a), o.Error, a.Reasons[0].Text)
		}
		switch a.Kind {
		case nodescaler.Buy:
			l.bought = l.sim.Now()
		case nodescaler.Return:
			// One that drifted goes once there is room for another one, which may be late.
			if a.Reasons[0].Code != nodescaler.MachineDrifted {
				l.returned = l.sim.Now()
			}
		case nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.DeletePod, nodescaler.Stash, nodescaler.Wake, nodescaler.Reboot:
		}
	}
	for _, ws := range s.Workloads {
		if done := s.Resized(&ws); done != nil {
			l.said["action Resize"]++
			l.note("%s %s", s.ID, done.Outcome)
		}
		if d := ws.Decision; d != nil && d.To != d.From {
			if l.note("%s %s %d to %d: %s", s.ID, ws.Workload, d.From, d.To, texts(d.Reasons)); len(d.Reasons) == 0 {
				l.fault("%s: %s has no reason", s.ID, ws.Workload)
			}
		}
	}
	return nil
}

// texts are what reasons say.
func texts(reasons []podscaler.Reason) string {
	all := make([]string, len(reasons))
	for i := range reasons {
		all[i] = reasons[i].Text
	}
	return strings.Join(all, "; ")
}

// explained checks that a step's record has all that was done to the cluster in it, and notes
// what it says of machines.
func (l *life) explained(s *loop.Step) {
	said := map[string]bool{}
	for i := range s.Workloads {
		ws := &s.Workloads[i]
		if d := ws.Decision; d != nil && s.Rescaled(ws.Workload) != nil {
			said[fmt.Sprintf("scale %s %d", ws.Workload, d.To)] = true
		}
		if done := s.Resized(ws); done != nil {
			said["resize "+done.Pod] = !done.Evicted
			said["evict "+done.Pod] = done.Evicted
		}
	}
	for i := range s.Plan.Actions {
		o := s.Tried(i)
		if o == nil || o.Held != nil {
			continue
		}
		switch a := &s.Plan.Actions[i]; a.Kind {
		case nodescaler.Buy:
			l.ordered(a, o)
		case nodescaler.Return, nodescaler.Stash:
			l.ends[a.Machine] = true
		case nodescaler.Reboot:
			l.restarts[a.Machine] = true
		case nodescaler.Evict:
			said["evict "+a.Pod] = true
		case nodescaler.DeletePod:
			said["delete pod "+a.Pod] = true
			l.mayDelete(a)
		case nodescaler.Cordon:
			said["cordon "+a.Node] = true
		case nodescaler.Uncordon, nodescaler.Wake:
			said["uncordon "+a.Node] = true
		}
	}
	for _, done := range l.did {
		if !said[done] {
			l.fault("%s: %s was done, and its record does not say so", s.ID, done)
		}
	}
	l.did = nil
}

// mayDelete checks that a pod is deleted for no other reason than that the drain of its node ends.
func (l *life) mayDelete(a *nodescaler.Action) {
	d := l.pools["aa"].Spec.Disruption
	if d == nil || d.TerminationGracePeriod == "" || a.Grace < nodescaler.Duration(time.Second) || a.Reasons[0].Code != nodescaler.DrainEnds {
		l.fault("%s is deleted with %s to end: %s", a.Pod, a.Grace, a.Reasons[0])
	}
}

// ordered notes an order, which must not exceed the quotas.
func (l *life) ordered(a *nodescaler.Action, o *loop.Outcome) {
	l.orders[a.Order] = true
	for _, namespace := range a.For {
		for i := range l.cfg.Quotas {
			if q := &l.cfg.Quotas[i]; q.Fits(namespace) && q.Orders > 0 && l.orderedFor(namespace) >= q.Orders {
				l.fault("%d machines were ordered for %s in an hour, of at most %d, and another one", l.orderedFor(namespace), namespace, q.Orders)
			}
		}
		if o.Refused == "" {
			l.boughtFor[namespace] = append(l.boughtFor[namespace], l.now())
		}
	}
}

// scales checks that a workload does not grow beyond the quota of its namespace. What others
// scale may.
func (l *life) scales(s *service, to int) {
	if to <= s.replicas || len(l.cfg.Quotas) == 0 || l.stale > 0 || l.api != nil && l.sim.Now().Before(l.api.blurred) {
		return
	}
	all := to
	for _, o := range l.services {
		if o != s {
			all += o.replicas
		}
	}
	if q := l.cfg.Quotas[0]; all > q.Replicas {
		l.fault("%s is scaled from %d to %d: namespace %s has %d replicas then, of at most %d: %s", s.name, s.replicas, to, q.Namespace, all, q.Replicas, l.counts())
	}
}

// counts are the replicas and the pods of all services.
func (l *life) counts() (text string) {
	for _, s := range l.services {
		stay := 0
		for _, p := range l.pods {
			if p.of == s && p.ends.IsZero() {
				stay++
			}
		}
		text += fmt.Sprintf("%s %d replicas, %d pods, %d ready; ", s.name, s.replicas, stay, l.ready(s))
	}
	return text
}

// inOrder is what holds once all has been calm for long.
func (l *life) inOrder() {
	state, err := l.fleet.List(context.Background())
	if err != nil {
		l.fault("at the end the machines are not known: %v", err)
		return
	}
	l.rolled()
	listed, unborn := map[string]bool{}, map[string]bool{} // unborn machines still need their discs
	for i := range state.Machines {
		m := &state.Machines[i]
		listed[m.Name] = true
		unborn[m.Name] = m.Phase != nodescaler.Joined && m.Phase != nodescaler.Spare
		moves := m.Problem == "" && l.now().Sub(m.Since) < onItsWay
		if unborn[m.Name] && !l.named[m.Name] && !moves {
			l.fault("at the end machine %s is %s: %s", m.Name, m.Phase, m.Problem)
		}
	}
	for _, v := range l.machines() {
		if !listed[v.Config["name"]] {
			l.fault("at the end %d (%s) is left over", v.ID, v.Config["name"])
		}
	}
	for _, v := range l.sim.Inventory().Volumes {
		if _, name, disc := strings.Cut(strings.TrimSuffix(v.ID, ".iso"), "iso/plimsoll-home--"); disc && !l.named[name] && !unborn[name] {
			l.fault("at the end disc %s is left over", v.ID)
		}
	}
	for _, s := range l.services {
		if a := l.autoscalers[s.name]; s.replicas > int(a.Spec.MaxReplicas) || s.replicas < int(*a.Spec.MinReplicas) {
			l.fault("at the end %s has %d replicas", s.name, s.replicas)
		}
	}
	// SLOCost under a cap of cost is known to swing between two numbers of replicas. So is Joint
	// with cluster-autoscaler, in a life of a thousand: with one pod less it measures another limit
	// of what a pod carries, by which one more is needed.
	swings := slices.ContainsFunc(slices.Collect(maps.Values(l.autoscalers)), func(a *v1alpha1.WorkloadAutoscaler) bool {
		return a.Spec.Policy == "SLOCost" || a.Spec.Policy == "Joint" && l.autoscaler != nil
	})
	steady := l.sim.Now().Add(-steadyFor)
	if !swings && l.bought.After(steady) && l.returned.After(steady) {
		l.fault("at the end machines come and go")
	}
}
