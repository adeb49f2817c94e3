package nodescaler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Unhelped remembers pods that do not lack a machine: they stayed unschedulable for minutes beside
// a ready node with room for them. The scheduler has a reason that is not observed here, such as a
// full storage or a constraint of its own, and a further machine would not change it. So none is
// ordered or kept for pods like them, with a backoff that doubles. It ends when one of them is
// scheduled. It may be forgotten: then they are retried once more.
type Unhelped struct {
	last    time.Time
	waits   map[string]wait // by pod
	classes map[string]*unhelped
}

type wait struct {
	since time.Time
	class string
}

// unhelped are like pods of one workload.
type unhelped struct {
	roomy time.Time // since when there has been room, though one of them has waited for long
	until time.Time // no machine is ordered for them before
	rest  time.Duration
	why   string
}

const (
	// unhelpedAfter is how long a pod has to have waited before room that there is for it counts,
	// and roomyFor how long there has to be some then. A scheduler tries again at once when a node
	// joins.
	unhelpedAfter = 4 * time.Minute
	roomyFor      = time.Minute
	// Pods are left alone for as long at first and at most. A machine is paid for five minutes and
	// its start each time that they are tried.
	firstUnhelped   = 15 * time.Minute
	longestUnhelped = 4 * time.Hour
)

// Mark has the snapshot say of which pods that is so now, and the index too.
func (u *Unhelped) Mark(x *Index) {
	s := x.Snapshot
	// No step for a long time, or a jump of the clock.
	if passed := s.Now.Sub(u.last); passed < 0 || passed > unhelpedAfter {
		u.waits = nil
		for _, c := range u.classes {
			c.roomy = time.Time{}
		}
	}
	u.last = s.Now
	waiting := u.see(s)
	var domains *Domains
	s.Unhelped = nil // it may be the one that the step before made
	looked := map[*unhelped]bool{}
	for _, i := range waiting {
		p := &s.Pods[i]
		w := u.waits[p.Name]
		c := u.classes[w.class]
		if c == nil && s.Now.Sub(w.since) < unhelpedAfter {
			continue
		}
		if c == nil {
			c = &unhelped{}
			u.classes[w.class] = c
		}
		if !s.Now.Before(c.until) && s.Now.Sub(w.since) >= unhelpedAfter && !looked[c] {
			if looked[c] = true; domains == nil {
				domains = NewDomains(x)
			}
			c.look(x, domains, p, w.since)
		}
		if s.Now.Before(c.until) {
			if s.Unhelped == nil {
				s.Unhelped = map[string]string{}
			}
			s.Unhelped[p.Name] = c.why
		}
	}
	x.Pending = slices.DeleteFunc(x.Pending, func(p *Pod) bool { return s.NotHelped(p) != "" })
}

// NotHelped says why no machine is ordered for the pod for now; empty if one may be.
func (s *Snapshot) NotHelped(p *Pod) string {
	if !p.Unschedulable { // as hardly any pod is
		return ""
	}
	return s.Unhelped[p.Name]
}

// see notes which pods wait since when, and returns them.
func (u *Unhelped) see(s *Snapshot) (waiting []int) {
	was := u.waits
	u.waits = map[string]wait{}
	if u.classes == nil {
		u.classes = map[string]*unhelped{}
	}
	over := map[string]bool{} // classes whose rest is over
	for class, c := range u.classes {
		if c.until.Sub(s.Now) > longestUnhelped { // the clock was put back
			c.until = s.Now
		}
		if s.Now.Sub(c.until) > longestUnhelped && c.roomy.IsZero() {
			delete(u.classes, class)
		} else if !c.until.IsZero() && !s.Now.Before(c.until) && c.roomy.IsZero() {
			over[class] = true
		}
	}
	for i := range s.Pods {
		p := &s.Pods[i]
		before, known := was[p.Name]
		if p.Node != "" {
			if known { // it was placed
				delete(u.classes, before.class)
			}
			continue
		}
		if !p.Unschedulable || p.Terminating || p.Daemon || p.Finished() {
			continue
		}
		if !known || before.since.After(s.Now) {
			before = wait{s.Now, classOf(p)}
		}
		if c := u.classes[before.class]; over[before.class] && before.since.Before(c.until) {
			before.since = s.Now // tried again
		}
		u.waits[p.Name] = before
		waiting = append(waiting, i)
	}
	return waiting
}

// classOf is the same for pods of one workload that the same nodes have room for.
func classOf(p *Pod) string {
	return cmp.Or(p.Workload, p.Name) + " " + strconv.FormatInt(int64(p.Requests.CPU), 10) + " " +
		strconv.FormatInt(int64(p.Requests.Memory), 10) + " " + p.Extra.Key() + Class(p)
}

// look notes whether a node has room for a pod that has waited for long.
func (c *unhelped) look(x *Index, domains *Domains, p *Pod, since time.Time) {
	room := ""
	for i := range x.Nodes {
		if n := &x.Nodes[i]; !n.Draining && Refusal(p, n.Node, n.Used) == "" && n.Crowd.Clash(p) == nil && !domains.Refuses(p, n.Node) {
			room = n.Name
			break
		}
	}
	switch {
	case room == "":
		c.roomy = time.Time{}
		return
	case c.roomy.IsZero() || c.roomy.After(x.Now):
		c.roomy = x.Now
		return
	case x.Now.Sub(c.roomy) < roomyFor:
		return
	}
	c.rest = min(max(2*c.rest, firstUnhelped), longestUnhelped)
	c.until, c.roomy = x.Now.Add(c.rest), time.Time{}
	c.why = fmt.Sprintf("it and those like it have been unschedulable for %s although %s has room for it, so it waits for something else than a machine; tried again at %s",
		x.Now.Sub(since).Round(time.Second), room, c.until.UTC().Format(time.TimeOnly))
}
