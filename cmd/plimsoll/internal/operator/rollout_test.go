package operator

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
)

// Each key of the spec is said to make machines what they are, or not to. Those that do change the
// revision, and the earlier revision comes back with the earlier keys.
func TestRevisionsFollowTheKeysThatMakeMachines(t *testing.T) {
	makes := map[string]func(*v1alpha1.VMPoolSpec){
		"template": func(s *v1alpha1.VMPoolSpec) { s.Template.VMID = 9100 },
		"clone":    func(s *v1alpha1.VMPoolSpec) { s.Clone = "full" },
		"storage":  func(s *v1alpha1.VMPoolSpec) { s.Clone, s.Storage = "full", "local" },
		"format":   func(s *v1alpha1.VMPoolSpec) { s.Clone, s.Format = "full", "raw" },
		"bridge":   func(s *v1alpha1.VMPoolSpec) { s.Bridge = "vmbr1" },
		"vlan":     func(s *v1alpha1.VMPoolSpec) { s.VLAN = 7 },
		"firewall": func(s *v1alpha1.VMPoolSpec) { s.Firewall = true },
		"network": func(s *v1alpha1.VMPoolSpec) {
			s.Network = &v1alpha1.Addressing{First: "10.0.0.50/16", Gateway: "10.0.0.1"}
		},
		"pvePool": func(s *v1alpha1.VMPoolSpec) { s.PVEPool = "other" },
		"labels":  func(s *v1alpha1.VMPoolSpec) { s.Labels = map[string]v1alpha1.NodeLabelValue{"a": "b"} },
		"taints":  func(s *v1alpha1.VMPoolSpec) { s.Taints = []v1alpha1.Taint{{Key: "a", Effect: "NoSchedule"}} },
		"region":  func(s *v1alpha1.VMPoolSpec) { s.Region = "far" },
		"zone":    func(s *v1alpha1.VMPoolSpec) { s.Zone = "z" },
		"join":    func(s *v1alpha1.VMPoolSpec) { s.Join.KubeletArgs = []string{"v=2"} },
		"guest":   func(s *v1alpha1.VMPoolSpec) { s.Guest = &v1alpha1.Guest{CPUType: "host"} },
	}
	others := []string{
		"mode", "approval", "scaledBy", "shapes", "min", "max", "tags", "vmids", "cooldown", "placement", "reserved", "podSlots", "resources", "iso", "disruption", "shutdownGrace",
		"joinTimeout", "maxFailures",
	}
	h := newHouse(t)
	read := func(p *v1alpha1.VMPool) string {
		s, err := (&readings{}).pool(p, h.cfg.ReadFile)
		if err != nil {
			t.Fatalf("%+v: %v", p.Spec, err)
		}
		return s.Revision()
	}
	base := h.pool("aa", "")
	good, err := goodSpec(&base.Spec)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range madeBy {
		change := makes[key]
		if change == nil {
			t.Fatalf("no change of %s is tried", key)
		}
		changed := base.DeepCopy()
		if change(&changed.Spec); read(changed) == read(base) {
			t.Errorf("%s: the revision is the same", key)
		}
		changed.Spec.Max = 9 // what is no part of it stays
		back, err := asGood(changed, good)
		if err != nil || read(back) != read(base) || back.Spec.Max != 9 {
			t.Errorf("%s: it does not come back: %v", key, err)
		}
	}
	full := base.DeepCopy()
	full.Spec.Tags, full.Spec.PodSlots, full.Spec.JoinTimeout, full.Spec.MaxFailures = []v1alpha1.Tag{"a"}, 50, "1m", 9
	full.Spec.Disruption = &v1alpha1.Disruption{Drift: "Replace", Rollout: &v1alpha1.Rollout{Surge: "1"}}
	if read(full) != read(base) {
		t.Error("what makes no machine changes the revision")
	}
	spec := reflect.TypeFor[v1alpha1.VMPoolSpec]()
	for i := range spec.NumField() {
		key, _, _ := strings.Cut(spec.Field(i).Tag.Get("json"), ",")
		if slices.Contains(madeBy, key) == slices.Contains(others, key) {
			t.Errorf("%s: it must be among the keys that make machines, or among those that do not", key)
		}
	}
}

// A person who edits the status cannot have machines made by anything that was not the revision.
func TestALastGoodRevisionThatWasEditedIsNotGoneBackTo(t *testing.T) {
	h := newHouse(t)
	p := h.pool("aa", "  mode: Active\n  disruption: {drift: Replace, rollout: {surge: 1}}\n")
	good, err := goodSpec(&p.Spec)
	if err != nil {
		t.Fatal(err)
	}
	s, err := (&readings{}).pool(p, h.cfg.ReadFile)
	if err != nil {
		t.Fatal(err)
	}
	revision := s.Revision()
	for edited, back := range map[string]bool{
		good: true, strings.Replace(good, "9000", "9001", 1): false, "{": false, "{}": false,
	} {
		changed := p.DeepCopy()
		changed.Spec.Template.VMID = 9100
		now, err := (&readings{}).pool(changed, h.cfg.ReadFile)
		if err != nil {
			t.Fatal(err)
		}
		changed.Status.Rollout = &v1alpha1.RolloutStatus{
			Revision: now.Revision(), Phase: string(nodescaler.PhaseRollingBack), LastGood: &v1alpha1.GoodRevision{Revision: revision, Spec: edited},
		}
		d := h.cfg.lay(objects{pools: []*v1alpha1.VMPool{changed}}, t0)
		if got := d.pools[0].rolling.Back; got != back || back && d.pools[0].pve.Template.VMID != 9000 || !back && d.pools[0].pve.Template.VMID != 9100 {
			t.Errorf("%s: goes back is %v by template %d, want %v", edited, got, d.pools[0].pve.Template.VMID, back)
		}
	}
}

func TestARolloutIsResumedAtATime(t *testing.T) {
	p := &v1alpha1.VMPool{}
	p.Annotations = map[string]string{v1alpha1.AnnotationRolloutResumed: "tomorrow"}
	if said := notResumed(p, v1alpha1.AnnotationRolloutResumed, t0); !strings.Contains(said, `must be a time such as 2026-03-01T12:00:00Z, was "tomorrow"`) {
		t.Errorf("said %q", said)
	}
	p.Annotations[v1alpha1.AnnotationRolloutResumed] = t0.Format(time.RFC3339)
	if at := annotatedTime(p, v1alpha1.AnnotationRolloutResumed, t0); !at.Equal(t0) || notResumed(p, v1alpha1.AnnotationRolloutResumed, t0) != "" {
		t.Errorf("resumed at %s", at)
	}
}
