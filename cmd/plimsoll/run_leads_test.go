package main

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// A pool's series are there before its first machine, which a rate would miss otherwise.
func TestLeadTimesOfAPoolAreThereFromTheStart(t *testing.T) {
	leads, registry := newLeadTimes(), prometheus.NewPedanticRegistry()
	registry.MustRegister(leads.stages)
	leads.know([]settings.Pool{{Name: "web"}})
	leads.took(pve.Lead{Pool: "web", Stage: pve.StageClone, Took: 40 * time.Second})
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		t.Fatal(families, err)
	}
	counts := map[string]uint64{}
	for _, m := range families[0].GetMetric() {
		h := m.GetHistogram()
		counts[m.GetLabel()[1].GetValue()] = h.GetSampleCount()
		if h.GetSampleCount() == 1 && h.GetSampleSum() != 40 {
			t.Errorf("it took %v s", h.GetSampleSum())
		}
	}
	for _, stage := range pve.Stages {
		n, there := counts[string(stage)]
		if !there || (n == 1) != (stage == pve.StageClone) {
			t.Errorf("%s has %d, there %t", stage, n, there)
		}
	}
}
