package upstream_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// everyMoment tries every moment at which a process can die in something: before and after each
// request to the cluster and each write, and in the middle of a write. It ends when the process has
// lived through all of it.
func everyMoment(t *testing.T, try func(t *testing.T, m moment) (died bool)) {
	stride := 1
	if race.On {
		stride = 10 // each moment is a dozen times slower, and what may race is the same at all
	}
	for _, kind := range []moment{{request, before, 0}, {request, after, 0}, {write, before, 0}, {write, torn, 0}, {write, after, 0}} {
		deaths := 0
		for n := 1; !t.Failed(); n += stride {
			kind.n = n
			if !try(t, kind) {
				break
			}
			deaths++
		}
		t.Logf("%d deaths %s a %s", deaths, kind.side, kind.deed)
		if deaths*stride < 20 {
			t.Errorf("%d deaths %s a %s are not all that there are", deaths, kind.side, kind.deed)
		}
	}
}

// rebirth is how long a process is away, and so what has happened when it comes back.
var rebirth = []time.Duration{0, 5 * time.Second, 3 * time.Minute}

// attempt is a try with a process that dies at a moment.
type attempt struct {
	*world
	m      moment
	died   bool
	clones int // that were begun
}

// attempted makes a world whose process will die, once it is let to.
func attempted(t *testing.T, m moment) *attempt {
	a := &attempt{m: m}
	a.world = prepare(t, plan{seed: uint64(m.n), mortal: true})
	a.sim.OnCall(func(c pvesim.Call) {
		if c.Method == "POST" && strings.HasSuffix(c.Path, "/clone") && c.Status == 200 {
			a.clones++
		}
	})
	a.start()
	a.run(time.Second)
	return a
}

// mortal lets the process die from now on.
func (a *attempt) mortal() { a.life = a.reborn(&life{dies: a.m}) }

// reborn starts a process with a life.
func (a *attempt) reborn(l *life) *life {
	a.world.life = l
	a.start()
	return l
}

// do does something, and starts the process anew if it dies of it: then it reports that, and the
// caller has heard nothing.
func (a *attempt) do(what func()) (done bool) {
	if a.world.life.lives(what) {
		return true
	}
	a.died = true
	a.sim.Advance(rebirth[a.m.n%len(rebirth)])
	a.reborn(&life{})
	for !a.life.lives(a.round) || a.lost() {
		a.sim.Advance(time.Second)
	}
	return false
}

// lost reports whether the cluster has not been seen.
func (w *world) lost() bool {
	_, err := w.fleet.List(w.t.Context())
	return err != nil
}

// agree holds target, instances and machines against each other.
func (a *attempt) agree(when, group string) {
	a.t.Helper()
	there := 0
	listed := []string{}
	for _, i := range a.instances(group) {
		listed = append(listed, a.nameOf(i.ID))
		if i.State != "Deleting" {
			there++
		}
		if i.Code != "" {
			a.t.Errorf("%s, %s: %+v", a.m, when, i)
		}
	}
	if got := a.target(group); got != there {
		a.t.Errorf("%s, %s: target %d, instances %v", a.m, when, got, a.instances(group))
	}
	for _, name := range a.vmNames() {
		if name != "" && !slices.Contains(listed, name) && strings.HasPrefix(name, "small-") {
			a.t.Errorf("%s, %s: %s is there and not listed: %v", a.m, when, name, listed)
		}
	}
}

// settle works until a group has n machines and all run, and nothing is left over.
func (a *attempt) settle(group string, n int) {
	a.t.Helper()
	quiet := func() bool {
		return a.all(group, "Running", n) && len(a.vms()) == n && len(a.discs()) == 0 && len(a.kube.joined()) == n
	}
	for end := a.sim.Now().Add(15 * time.Minute); !quiet(); {
		if a.sim.Now().After(end) {
			a.t.Fatalf("%s: target %d, instances %v, machines %v, discs %v, want %d\n%s", a.m, a.target(group), a.instances(group), a.vmNames(), a.discs(), n, a.story())
		}
		if a.do(a.round) {
			a.agree("on the way", group)
		}
	}
	for range 3 {
		a.do(a.round) // and when all is quiet
	}
	a.agree("at the end", group)
	if diff := cmp.Diff(a.namesOf(a.ids(group)...), a.vmNames()); diff != "" || !quiet() {
		a.t.Errorf("%s: -listed +there:\n%s", a.m, diff)
	}
}

// A provider that dies at any moment of a scale-up makes the machines that were asked for, and none
// twice.
func TestDeathInAScaleUp(t *testing.T) {
	everyMoment(t, func(t *testing.T, m moment) bool {
		a := attempted(t, m)
		small := a.group("small")
		a.mortal()
		a.do(a.round)
		// Cluster-autoscaler that hears nothing reads the target, and asks for what is still
		// missing.
		shown := []string{}
		for have := 0; have < 3; have = a.target(small) {
			if a.do(func() { a.mustIncrease(small, int32(3-have)) }) {
				shown = a.ids(small)
			}
			a.agree("after the increase", small)
			if got := a.target(small); got > 3 {
				t.Fatalf("%s: target %d", m, got)
			}
		}
		a.settle(small, 3)
		if diff := cmp.Diff(shown, a.ids(small)); len(shown) == 3 && diff != "" {
			t.Errorf("%s: -ids that were shown +ids that run:\n%s", m, diff)
		}
		if a.clones != 3 {
			t.Errorf("%s: %d clones, want 3", m, a.clones)
		}
		return a.died
	})
}

// A provider that dies at any moment of a scale-down deletes the machines that it was asked to, and
// no other.
func TestDeathInAScaleDown(t *testing.T) {
	everyMoment(t, func(t *testing.T, m moment) bool {
		a := attempted(t, m)
		small := a.group("small")
		a.joined(small, 3)
		nodes := a.kube.joined()
		batch := []*externalgrpc.ExternalGrpcNode{nodes[0].asked(), nodes[2].asked()}
		stays := []string{nodes[1].Name}
		a.mortal()
		a.do(a.round)
		answered := false
		for !answered { // cluster-autoscaler that hears nothing asks again
			answered = a.do(func() {
				if err := a.delete(small, batch...); err != nil {
					t.Fatalf("%s: %v", m, err)
				}
			})
			a.agree("after the deletion", small)
			if got := a.target(small); got < 1 {
				t.Fatalf("%s: target %d", m, got)
			}
		}
		if got := a.target(small); got != 1 {
			t.Errorf("%s: target %d after the deletion, want 1", m, got)
		}
		a.settle(small, 1)
		if diff := cmp.Diff(stays, a.vmNames()); diff != "" {
			t.Errorf("%s: -what stays +what is there:\n%s", m, diff)
		}
		if a.clones != 3 {
			t.Errorf("%s: %d clones, want the first 3", m, a.clones)
		}
		return a.died
	})
}
