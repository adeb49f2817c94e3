package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// Orders name the pods that they are for, each once, those included that share a node with others.
func TestOrdersNameTheirPods(t *testing.T) {
	beside := sample.New().Pod("a", "", 1000, 100).Waiting(3, func(p *nodescaler.Pod) {
		joins(nodescaler.HostLabel, "app=web", "app=web")(p)
		p.Requests.CPU = 600
	})
	for _, s := range []*nodescaler.Snapshot{fleet(), &beside.Snapshot} {
		named := map[string]int{}
		plan := build(t, Spec{Policy: "joint"}).Decide(nodescaler.NewIndex(s))
		for i := range plan.Actions {
			a := &plan.Actions[i]
			if a.Kind == nodescaler.Buy && len(a.Pods) == 0 {
				t.Errorf("order %s names no pod", a.Order)
			}
			for _, p := range a.Pods {
				named[p]++
			}
		}
		for i := range s.Pods {
			if p := &s.Pods[i]; named[p.Name] > 1 || named[p.Name] == 1 && !p.Unschedulable || named[p.Name] == 0 && s == &beside.Snapshot {
				t.Errorf("%s is ordered for %d times", p.Name, named[p.Name])
			}
			delete(named, s.Pods[i].Name)
		}
		if len(named) > 0 {
			t.Errorf("ordered for what does not wait: %v", named)
		}
	}
}

// While machines are on their way the pods that they were ordered for have places on them, which
// another packing of them all might not find.
func TestWhatIsOnItsWayIsNotOrderedAgain(t *testing.T) {
	for _, spec := range []Spec{{Policy: "joint"}, {Policy: "unneeded"}} {
		w := sample.New()
		w.Pools[0].Max = 1000
		w.Hosts[0].Room = sample.Small.Resources().Times(1000)
		for i := range 200 {
			cpu, mib := []pricing.MilliCPU{100, 250, 500, 750, 1000}[i%5], []pricing.Bytes{256, 512, 1024, 2048}[i%4]
			w.Pod(fmt.Sprintf("ns/p%03d", i), "", cpu, mib, func(p *nodescaler.Pod) {
				if app := i % 9; app < 4 { // of an app of which no two share a node
					p.Has = []string{fmt.Sprint("app=", app)}
					p.Repels = p.Has
				}
			})
		}
		p := build(t, spec)
		for look := range 3 {
			s := w.At(time.Duration(look) * time.Minute)
			for i, a := range p.Decide(nodescaler.NewIndex(s)).Actions {
				if look > 0 {
					t.Errorf("%s: order %d of look %d is for %v", spec.Policy, i+1, look+1, a.Pods)
				}
				w.Machine(nodescaler.MachineName(a.Pool, a.Order), a.Host, nodescaler.Ordered, func(m *nodescaler.Machine) { m.Order, m.Created, m.Since = a.Order, s.Now, s.Now })
			}
		}
	}
}
