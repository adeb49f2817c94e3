//go:build lab

package incluster

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/lab"
)

// While Proxmox VE does not answer, or the API server is away, nothing is taken for gone; and
// afterwards it goes on.
func TestOutagesTakeNothingAwayAndEnd(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	c := w.start("podscaler,nodescaler", quick)
	w.deployment("web", 4, "700m")
	w.until("all pods run", func() bool { return w.running() == 4 })
	before := w.machineNames()
	stop := func(part string, whenDown func()) {
		if err := w.lab.Stop(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		w.Logf("%6.1fs  %s is stopped", time.Since(w.began).Seconds(), part)
		whenDown()
		if err := w.lab.Start(t.Context(), part); err != nil {
			t.Fatal(err)
		}
		w.Logf("%6.1fs  %s is started", time.Since(w.began).Seconds(), part)
	}
	stop("pve", func() {
		w.deployment("web", 6, "700m") // for which a machine is needed
		time.Sleep(15 * time.Second)
		if n := len(w.nodes()); n != 2 {
			t.Errorf("%d nodes while Proxmox VE is away", n)
		}
	})
	w.until("what was wanted meanwhile is there", func() bool { return w.running() == 6 && len(w.vms()) == 3 })
	stop(lab.ControlPlanePart, func() { time.Sleep(15 * time.Second) })
	w.again(lab.KWOKPart) // as where the API server is killed
	w.until("it leads again", func() bool { return c.leads(w) })
	after := w.machineNames()
	for _, name := range before {
		if !slices.Contains(after, name) {
			t.Errorf("machine %s was lost", name)
		}
	}
	w.deployment("web", 8, "700m")
	w.until("it goes on", func() bool { return w.running() == 8 && len(w.vms()) == 4 })
}

// An API server that is killed while machines are made, and while they are returned, leaves
// everything as it was wanted: no machine is lost, none is made twice, and nothing shrinks that
// should not.
func TestAPIServerThatIsKilledLosesAndDoublesNothing(t *testing.T) {
	w := newWorld(t)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.start("podscaler,nodescaler", quick)
	w.deployment("web", 2, "700m")
	w.until("all pods run", func() bool { return w.running() == 2 && len(w.nodes()) == 1 })
	most := 0
	for _, replicas := range []int{6, 2, 6} {
		need := replicas / 2
		w.deployment("web", replicas, "700m")
		w.until("it has begun", func() bool { return len(w.vms()) > 1 && len(w.vms()) <= 3 || replicas == 2 })
		// Somewhere in the middle of it.
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
		if err := w.lab.Kill(lab.ControlPlanePart); err != nil {
			t.Fatal(err)
		}
		w.Logf("%6.1fs  the API server is killed with %d machines", time.Since(w.began).Seconds(), len(w.vms()))
		// Shorter than a lease lasts, or longer.
		time.Sleep(time.Duration(rand.IntN(12000)) * time.Millisecond)
		if err := w.lab.Start(t.Context(), lab.ControlPlanePart); err != nil {
			t.Fatal(err)
		}
		w.until("the API server is started", func() bool { return w.answers() })
		// It plays kubelets, and may stop hearing of pods when the API server goes under it.
		w.again(lab.KWOKPart)
		w.until("there are the pods and the machines that are wanted", func() bool {
			most = max(most, len(w.vms()))
			return w.running() == replicas && len(w.vms()) == need && len(w.nodes()) == need
		})
	}
	if most > 3 {
		t.Errorf("there were %d machines, and never more than 3 were needed", most)
	}
}

// again ends a part of the lab and starts it.
func (w *world) again(part string) {
	w.Helper()
	if err := w.lab.Stop(w.Context(), part); err != nil {
		w.Fatal(err)
	}
	if err := w.lab.Start(w.Context(), part); err != nil {
		w.Fatal(err)
	}
}

// answers reports whether the API server says that it is ready.
func (w *world) answers() bool {
	return w.client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(w.Context()).Error() == nil
}

// machineNames are the machines' names.
func (w *world) machineNames() []string {
	var all []string
	for _, v := range w.vms() {
		all = append(all, v.Config["name"])
	}
	return all
}
