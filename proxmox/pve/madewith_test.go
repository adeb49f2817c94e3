package pve

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A pool's settings change at any time while a machine is made. It drifts if, and only if, it is
// not what the pool would make now.
func TestMachinesDriftFromWhatTheyWereMadeWith(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(t, plan{hosts: 1, seed: 3}).begin()
		w.run(time.Second)
		p := *w.pool()
		p.Guest.CPUType = "host"
		set := func(to string) {
			p.Guest.CPUType = to
			must.Do(rt, w.fleet.Configure([]settings.Pool{p}, nil))
		}
		set("host")
		w.run(time.Second)
		name := w.mustOrder("pve1")
		for range rapid.IntRange(1, 3).Draw(rt, "changes") {
			w.run(time.Duration(rapid.IntRange(0, 40).Draw(rt, "seconds")) * time.Second)
			set(rapid.SampledFrom([]string{"host", "x86-64-v2-AES"}).Draw(rt, "cpu"))
		}
		w.until("it has joined", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
		w.run(surveyEvery + time.Minute)
		c := must.Get(w.root().VM("pve1", w.fleet.roster.machines[strings.TrimPrefix(name, p.Name+"-")].VMID).Config(context.Background()))(rt)
		drifted := w.machine(name).Drifted
		if is := c.Raw["cpu"]; (is == p.Guest.CPUType) != (drifted == "") {
			rt.Errorf("it has CPU type %s, its pool %s, and it says: %q", is, p.Guest.CPUType, drifted)
		}
	})
}

// A machine that was cloned or given its disc by other settings than it is configured by is what no
// settings make.
func TestMachinesThatAreMadeOfTwoSettingsDrift(t *testing.T) {
	p := settings.Pool{Name: "w"}
	now, cloned := p.Made("pve1"), p.Cloned("pve1")
	full := p
	full.Clone = "full"
	for _, c := range []struct {
		name   string
		i      intents.Intent
		drifts bool
	}{
		{"all by the same", intents.Intent{Host: "pve1", Making: intents.Making{Cloned: cloned, Seeded: now}}, false},
		{"no disc", intents.Intent{Host: "pve1", Making: intents.Making{Cloned: cloned}}, false},
		{"it is not known how it was cloned", intents.Intent{Host: "pve1"}, false},
		{"another disc", intents.Intent{Host: "pve1", Making: intents.Making{Cloned: cloned, Seeded: full.Made("pve1")}}, true},
		{"another clone", intents.Intent{Host: "pve1", Making: intents.Making{Cloned: full.Cloned("pve1")}}, true},
	} {
		if got := settings.Differs(madeWith(&c.i, &p), now); got != c.drifts {
			t.Errorf("%s: it drifts: %t", c.name, got)
		}
	}
}
