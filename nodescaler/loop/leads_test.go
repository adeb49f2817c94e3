package loop

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// How long a pod takes to come is known of those that were seen to, once. One whose readiness
// comes and goes has not come anew, however old it is.
func TestPodsThatBecomeReadyAgainTellNoLead(t *testing.T) {
	type look struct {
		after  time.Duration
		ready  bool
		waited bool // for a node
	}
	for _, c := range []struct {
		name    string
		created time.Duration
		looks   []look
		want    nodescaler.Recent
	}{
		{"one that comes", time.Minute, []look{{time.Minute, false, false}, {90 * time.Second, true, false}}, nodescaler.Recent{30 * time.Second}},
		{"one that is seen twice before", time.Minute, []look{
			{time.Minute, false, false}, {80 * time.Second, false, false}, {90 * time.Second, true, false},
		}, nodescaler.Recent{30 * time.Second}},
		{"one that waited for a node", time.Minute, []look{{time.Minute, false, true}, {2 * time.Minute, false, false}, {3 * time.Minute, true, false}}, nil},
		{"one that comes, and is not ready for a while", time.Minute, []look{
			{time.Minute, false, false}, {90 * time.Second, true, false}, {5 * time.Hour, false, false}, {5*time.Hour + time.Minute, true, false},
		}, nodescaler.Recent{30 * time.Second}},
		{"one that was ready when it was first seen", 0, []look{{0, true, false}, {5 * time.Hour, false, false}, {6 * time.Hour, true, false}}, nil},
		{"one that was there before the first look", -5 * time.Hour, []look{{0, false, false}, {time.Minute, true, false}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l leads
			if c.created > 0 {
				l.see(&nodescaler.Snapshot{}, false) // the first sight
			}
			for _, at := range c.looks {
				l.see(&nodescaler.Snapshot{Pods: []nodescaler.Pod{{
					Pod:      podscaler.Pod{Name: "web-1", Ready: at.ready, ReadyChanged: t0.Add(at.after)},
					Workload: "web", Created: t0.Add(c.created), Unschedulable: at.waited,
				}}}, false)
			}
			expect(t, "leads", c.want, l.pods)
		})
	}
}

// Only a replica that stays says how long replicas take.
func TestWhichPodsSayHowLongReplicasTake(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*nodescaler.Pod)
		want   nodescaler.Recent
	}{
		{name: "a replica", change: func(*nodescaler.Pod) {}, want: nodescaler.Recent{time.Minute}},
		{name: "a bare pod", change: func(p *nodescaler.Pod) { p.Workload = "" }},
		{name: "one that ends", change: func(p *nodescaler.Pod) { p.Terminating = true }},
		{name: "one that has ended", change: func(p *nodescaler.Pod) { p.Phase = podscaler.Succeeded }},
	} {
		var l leads
		l.see(&nodescaler.Snapshot{}, false)
		for _, ready := range []bool{false, true} {
			p := nodescaler.Pod{Pod: podscaler.Pod{Name: "web-1", Ready: ready, ReadyChanged: t0.Add(time.Minute)}, Workload: "web", Created: t0}
			c.change(&p)
			l.see(&nodescaler.Snapshot{Pods: []nodescaler.Pod{p}}, false)
		}
		expect(t, c.name, c.want, l.pods)
	}
}

// Until a machine was seen to come, it is not known how long a replica on one takes.
func TestHowLongAReplicaOnANewMachineTakes(t *testing.T) {
	pods := nodescaler.Recent{10 * time.Second}
	for _, c := range []struct {
		leads leads
		want  time.Duration
	}{
		{leads{}, 0}, {leads{pods: pods}, 0}, {leads{machines: nodescaler.Recent{time.Minute}}, time.Minute},
		{leads{machines: nodescaler.Recent{time.Minute}, pods: pods}, 70 * time.Second},
		{leads{machines: nodescaler.Recent{time.Minute}, pods: pods, own: map[string]nodescaler.Recent{"shop/web": {time.Second}}}, 61 * time.Second},
	} {
		expect(t, "lead", c.want, c.leads.machine("shop/web"))
	}
}

// How long a replica takes is its own workload's matter. Of one of which none was seen to come, it
// is what the others' take. With the workload it is forgotten.
func TestASlowStarterIsSlowAlone(t *testing.T) {
	h := newHouse()
	leads := map[string]time.Duration{}
	r := h.runner(podsSay(func(v *podscaler.View) podscaler.Recommendation {
		leads[v.Workload.Name] = v.Room.PodLead
		return podscaler.Recommendation{Known: true, Replicas: v.Replicas, Reasons: why}
	}), nil)
	web := r.Workloads[0]
	for _, name := range []string{"shop/slow", "shop/new"} {
		w := web
		w.Name = name
		r.Workloads, h.state.Replicas[name] = append(r.Workloads, w), 1
	}
	at := 0
	step := func() {
		at++
		must.Get(r.Once(t.Context(), t0.Add(time.Duration(at)*10*time.Second)))(t)
	}
	step()
	for name, takes := range map[string]time.Duration{"shop/web": 5 * time.Second, "shop/slow": 4 * time.Minute} {
		p := h.pod(name+"-1", "worker-a")
		p.Workload, p.Ready, p.Created, p.ReadyChanged = name, false, t0, t0.Add(takes)
		h.state.Pods = append(h.state.Pods, p)
	}
	step()
	for i := range h.state.Pods {
		h.state.Pods[i].Ready = true
	}
	step()
	expect(t, "leads", map[string]time.Duration{"shop/web": 5 * time.Second, "shop/slow": 4 * time.Minute, "shop/new": 4 * time.Minute}, leads)
	r.Workloads = r.Workloads[:1]
	step()
	expect(t, "kept", map[string]nodescaler.Recent{"shop/web": {5 * time.Second}}, r.Memory.leads.own)
}

// Pods that are gone are forgotten, and those that stay are not.
func TestLeadsForgetPodsThatAreGone(t *testing.T) {
	pod := func(name string, ready, ends bool) nodescaler.Pod {
		return nodescaler.Pod{
			Pod:      podscaler.Pod{Name: name, Ready: ready, ReadyChanged: t0.Add(time.Minute), Terminating: ends},
			Workload: "web", Created: t0,
		}
	}
	var l leads
	for _, pods := range [][]nodescaler.Pod{
		nil, {pod("web-1", false, false), pod("web-2", false, false)}, {pod("web-1", false, false), pod("web-2", false, true)},
	} {
		l.see(&nodescaler.Snapshot{Pods: pods}, false)
	}
	expect(t, "known", map[string]time.Time{"web-1": t0}, l.created)
	l.see(&nodescaler.Snapshot{Pods: []nodescaler.Pod{pod("web-1", true, false)}}, false)
	expect(t, "leads", nodescaler.Recent{time.Minute}, l.pods)
}

// A machine that has no node for a while has not been ordered anew, and one that the clock has
// jumped for came sooner than it says.
func TestMachinesThatBootAgainTellNoLead(t *testing.T) {
	type look struct {
		after time.Duration
		phase nodescaler.Phase
	}
	for _, c := range []struct {
		name  string
		looks []look
		jump  time.Time // of the clock
		want  nodescaler.Recent
	}{
		{"one that comes", []look{{0, nodescaler.Ordered}, {time.Minute, nodescaler.Booting}, {2 * time.Minute, nodescaler.Joined}}, time.Time{}, nodescaler.Recent{2 * time.Minute}},
		{"one that was ordered before the clock jumped", []look{{31 * time.Minute, nodescaler.Booting}, {32 * time.Minute, nodescaler.Joined}}, t0.Add(30 * time.Minute), nil},
		{"one that was ordered after it", []look{{0, nodescaler.Ordered}, {2 * time.Minute, nodescaler.Joined}}, t0.Add(-time.Minute), nodescaler.Recent{2 * time.Minute}},
		{"one whose host was away", []look{
			{0, nodescaler.Ordered}, {2 * time.Minute, nodescaler.Joined}, {15 * time.Minute, nodescaler.Booting}, {17 * time.Minute, nodescaler.Joined},
		}, time.Time{}, nodescaler.Recent{2 * time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var l leads
			l.see(&nodescaler.Snapshot{}, false)
			for _, at := range c.looks {
				l.see(&nodescaler.Snapshot{Now: t0.Add(at.after), Jumped: c.jump, Machines: []nodescaler.Machine{{
					Name: "w-1", Phase: at.phase, Created: t0, Since: t0.Add(at.after),
				}}}, true)
			}
			expect(t, "leads", c.want, l.machines)
		})
	}
}
