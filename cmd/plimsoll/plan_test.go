package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/operator"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// A spare that would be woken is shown, costs what it costs when it runs, and holds back what could
// be returned, as one that is bought does.
func TestAPlanShowsTheSparesThatItWakes(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	shape := pricing.Shape{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB}
	machine := func(name string, phase nodescaler.Phase) nodescaler.Machine {
		return nodescaler.Machine{Name: name, Pool: "workers", Shape: shape, Host: "pve1", Phase: phase, Created: now.Add(-time.Hour)}
	}
	pool := nodescaler.Pool{Name: "workers", Max: 5, Shapes: []pricing.Shape{shape}}
	for _, c := range []struct {
		woken         bool
		returned, all int
		then          pricing.Rate
	}{
		{false, 1, 0, 0},
		{true, 0, 2, 2 * pricing.DefaultBook().Rate(shape, "pve1", now)},
	} {
		var plan nodescaler.Plan
		if c.woken {
			why := []nodescaler.Reason{{Code: nodescaler.SpareWoken, Text: "it is started for web"}}
			plan.Actions = []nodescaler.Action{{Kind: nodescaler.Wake, Pool: "workers", Machine: "w-2", Node: "w-2", Reasons: why}}
		}
		s := &nodescaler.Snapshot{
			Now: now, Prices: pricing.DefaultBook(), Pools: []nodescaler.Pool{pool},
			Machines: []nodescaler.Machine{machine("w-1", nodescaler.Joined), machine("w-2", nodescaler.Spare)},
			Nodes: []nodescaler.Node{
				{Name: "w-1", Machine: "w-1", Pool: "workers", Ready: true, Allocatable: shape.Resources(), PodSlots: 110},
				{Name: "w-2", Machine: "w-2", Pool: "workers", Cordoned: true, Draining: true, Allocatable: shape.Resources(), PodSlots: 110},
			},
		}
		var a planAnswer
		a.machines(&operator.Outlook{Prices: s.Prices, Step: &loop.Step{Snapshot: s, Plan: plan}}, now)
		if len(a.Return) != c.returned || a.Then.PerHour != c.then {
			t.Errorf("woken %v: returns %v, and all cost %s then, want %s", c.woken, a.Return, a.Then.PerHour, c.then)
		}
		var table strings.Builder
		a.table(&table)
		if got := strings.Contains(table.String(), "w-2\tworkers\tsmall\tpve1\t0.0/2.0 (0%)\t0.0/4.0GiB (0%)\t+"); got != c.woken {
			t.Errorf("woken %v: the table shows %s", c.woken, table.String())
		}
		if c.woken && !strings.Contains(table.String(), "wake: it is started for web\n") {
			t.Errorf("the table does not say why: %s", table.String())
		}
	}
}

// What is shown for a pool that is paused is not done, so that is said.
func TestAPlanSaysWhichPoolsArePaused(t *testing.T) {
	var a planAnswer
	out := &operator.Outlook{Prices: pricing.DefaultBook(), Paused: map[string]string{"workers": "paused by ann"}}
	a.note(out, &planned{Seen: &operator.Seen{Picture: &kube.Picture{}}})
	const want = "VMPool workers is paused by ann; what that rules out of this plan is not done (plimsoll resume --pool workers)"
	if !slices.Contains(a.Notes, want) {
		t.Errorf("the notes are %q, want %q", a.Notes, want)
	}
}

// A plan does not know how often pods waited. Where spares may be kept, it says so, and claims
// nothing of them: what is being emptied may become one, and none is ordered.
func TestAPlanClaimsNothingOfSpares(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	shape := pricing.Shape{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB}
	for _, spares := range []bool{true, false} {
		s := &nodescaler.Snapshot{
			Now: now, Prices: pricing.DefaultBook(), Pools: []nodescaler.Pool{{Name: "workers", Max: 5, Shapes: []pricing.Shape{shape}}},
			Machines: []nodescaler.Machine{{Name: "w-1", Pool: "workers", Shape: shape, Host: "pve1", Phase: nodescaler.Joined, Created: now.Add(-time.Hour)}},
			Nodes:    []nodescaler.Node{{Name: "w-1", Machine: "w-1", Pool: "workers", Ready: true, Cordoned: true, Draining: true, Allocatable: shape.Resources(), PodSlots: 110}},
		}
		plan := nodescaler.Plan{Reasons: []nodescaler.Reason{{Code: nodescaler.SparesPay, Text: "pool workers is to keep no spare"}}}
		if spares {
			plan.Actions = []nodescaler.Action{{Kind: nodescaler.Buy, Pool: "workers", Shape: &shape, Host: "pve1", Keep: true}}
		}
		var a planAnswer
		out := &operator.Outlook{Prices: s.Prices, Spares: spares, Step: &loop.Step{Snapshot: s, Plan: plan}}
		a.machines(out, now)
		a.note(out, &planned{Seen: &operator.Seen{Picture: &kube.Picture{}}})
		const note = "how often pods waited is not known here: spares stay as they are, and none is ordered"
		if len(a.Buy) > 0 || len(a.Why) > 0 || (len(a.Stay) == 1) != spares || slices.Contains(a.Notes, note) != spares {
			t.Errorf("with spares %t: buys %v, stays %v, says %v and %q", spares, a.Buy, a.Stay, a.Why, a.Notes)
		}
	}
}
