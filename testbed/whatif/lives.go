package whatif

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/sim"
)

// lives is how long things took in a recording.
type lives struct {
	machines                         map[string]nodescaler.Machine // as they were last seen
	clones, boots, wakes, ends, pods []time.Duration
	seen                             map[string]bool // pods
	atOnce                           int             // machines that were cloned at a time
	queued                           bool            // an order waited for its clone
}

// see takes in the machines of a moment.
func (l *lives) see(o *loop.Observation) {
	now := make(map[string]nodescaler.Machine, len(o.Machines.Machines))
	cloning := 0
	for _, m := range o.Machines.Machines {
		now[m.Name] = m
		if m.Phase == nodescaler.Ordered && !m.Created.IsZero() {
			cloning++
		}
		l.queued = l.queued || m.Phase == nodescaler.Ordered && m.Created.IsZero()
		was, known := l.machines[m.Name]
		switch {
		case !known || was.Phase == m.Phase:
		case m.Phase == nodescaler.Booting && m.Woken.IsZero():
			l.clones = append(l.clones, m.Since.Sub(m.Created))
		case m.Phase == nodescaler.Joined && !m.Woken.IsZero():
			l.wakes = append(l.wakes, m.Since.Sub(m.Woken))
		case m.Phase == nodescaler.Joined && was.Phase == nodescaler.Booting:
			l.boots = append(l.boots, m.Since.Sub(was.Since))
		}
	}
	for name, was := range l.machines {
		if _, there := now[name]; !there && was.Phase == nodescaler.Deleting {
			l.ends = append(l.ends, o.Time.Sub(was.Since))
		}
	}
	l.machines, l.atOnce = now, max(l.atOnce, cloning)
}

// pod takes in a pod: how long it took to be ready, of those that had a node when they were first
// seen, so that none of the time was spent on waiting for one.
func (l *lives) pod(from time.Time, p *nodescaler.Pod) {
	if l.seen == nil {
		l.seen = map[string]bool{}
	}
	starting, known := l.seen[p.Name]
	switch {
	case !known:
		l.seen[p.Name] = p.Node != "" && p.Created.After(from)
		starting = l.seen[p.Name]
	}
	if starting && p.Ready && !p.ReadyChanged.IsZero() {
		l.pods = append(l.pods, p.ReadyChanged.Sub(p.Created))
		l.seen[p.Name] = false
	}
}

// What is assumed of times that a recording has no example of.
var usual = sim.Delays{
	Machine:  timing.Machine{Clone: seconds(20, 60), Boot: seconds(40, 70), Delete: seconds(5, 15)},
	Wake:     seconds(15, 30),
	PodStart: seconds(2, 10),
}

func seconds(from, to int) timing.Range {
	return timing.Range{Min: time.Duration(from) * time.Second, Max: time.Duration(to) * time.Second}
}

// delays are how long things take, from what that is fitted, and what of it is assumed.
func (l *lives) delays() (d sim.Delays, fitted, assumed []string) {
	d = usual
	for _, one := range []struct {
		name string
		seen []time.Duration
		into *timing.Range
	}{{"clones", l.clones, &d.Clone}, {"boots", l.boots, &d.Boot}, {"starts of spares", l.wakes, &d.Wake}, {"deletions", l.ends, &d.Delete}, {"starts of pods", l.pods, &d.PodStart}} {
		if len(one.seen) == 0 {
			assumed = append(assumed, one.name)
			continue
		}
		*one.into = inner(one.seen)
		fitted = append(fitted, fmt.Sprintf("%d %s (%s to %s)", len(one.seen), one.name, pricing.Short(one.into.Min.Round(time.Second)), pricing.Short(one.into.Max.Round(time.Second))))
	}
	return d, fitted, assumed
}

// inner is the range of durations without the extremes of many.
func inner(all []time.Duration) timing.Range {
	all = slices.Clone(all)
	slices.Sort(all)
	cut := len(all) / 20
	return timing.Range{Min: max(0, all[cut]), Max: max(0, all[len(all)-1-cut])}
}

// clones is how many machines are cloned at a time; 0 where no order was seen to wait.
func (l *lives) clonesAtOnce() int {
	if !l.queued {
		return 0
	}
	return max(1, l.atOnce)
}
