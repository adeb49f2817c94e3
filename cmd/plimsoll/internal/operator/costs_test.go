package operator

import (
	"errors"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// TestCostsAreOfWhatWasSeen also wants a process that leads no more to know of no costs.
func TestCostsAreOfWhatWasSeen(t *testing.T) {
	exporter := costs.NewExporter()
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	book := &pricing.Book{Unit: "EUR", PerVCPU: 10_000}
	of := &term{Config: Config{Costs: exporter}, prices: book}
	all := loop.Observation{
		Time: now, Cluster: loop.ClusterState{Nodes: []nodescaler.Node{{Name: "w-1"}, {Name: "cp"}}},
		Machines: loop.MachineState{Machines: []nodescaler.Machine{{Name: "w-1", Phase: nodescaler.Joined, Shape: pricing.Shape{CPU: 4000}}}},
	}
	noMachines, noCluster := all, all
	noMachines.MachinesErr, noCluster.ClusterErr = errors.New("no answer"), errors.New("stale")
	wants := func(when, cost string) {
		t.Helper()
		got := "unknown"
		if c := exporter.Costs(); c != nil {
			got = c.Total.Cost.Display(c.Currency)
		}
		if got != cost {
			t.Errorf("%s: costs are %s, want %s", when, got, cost)
		}
	}
	wants("at first", "unknown")
	of.price(&all, nil)
	wants("when all was seen", "€0.040/h")
	of.price(&noMachines, nil)
	wants("when the machines were not", "unknown")
	of.price(&all, nil)
	of.price(&noCluster, nil)
	wants("when the cluster was not", "unknown")
	of.price(&all, nil)
	of.price(nil, nil)
	wants("when another leads", "unknown")
	(&term{}).price(&all, nil) // no costs are asked for
}
