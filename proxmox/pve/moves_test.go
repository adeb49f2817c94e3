package pve

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// What a machine needs next, by its intent and by what is seen: the whole state machine.
func TestNextMove(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := now.Add(-time.Hour)
	vm := &placement.Guest{VMID: 1001, Host: "pve1", Name: "web-1"}
	at := func(s Step) func(*tracked, *scene) { return func(m *tracked, _ *scene) { m.Step = s } }
	listed := func(_ *tracked, s *scene) { s.guest = vm }
	proved := func(m *tracked, _ *scene) { m.conf, m.proved = &pveapi.VMConfig{}, now }
	returned := func(m *tracked, _ *scene) { m.Returned = ago }
	failed := func(m *tracked, _ *scene) { m.Failed, m.FailedAt = &nodescaler.Reason{Code: pvecode.JoinTimeout}, ago }
	held := func(m *tracked, _ *scene) { m.Held = &nodescaler.Reason{Code: pvecode.Quarantined} }
	gone := func(m *tracked, _ *scene) { m.Gone = ago }
	frozen := func(_ *tracked, s *scene) { s.frozen = true }
	offline := func(_ *tracked, s *scene) { s.online = false }
	deserted := func(_ *tracked, s *scene) { s.online, s.deserted = false, true }
	task := func(age time.Duration) func(*tracked, *scene) {
		return func(m *tracked, _ *scene) { m.Task = &Task{Kind: TaskClone, At: now.Add(-age)} }
	}
	destroys := func(m *tracked, _ *scene) { m.Task.Kind = TaskDestroy }
	heard := func(m *tracked, _ *scene) { m.heard = now.Add(-time.Second) }
	hung := func(m *tracked, _ *scene) { m.hung = true }
	unreached := func(_ *tracked, s *scene) { s.reached = false }
	tasks := func(_ *tracked, s *scene) { s.tasksListed = true }
	running := func(_ *tracked, s *scene) { s.tasksListed, s.running = true, true }
	disc := func(_ *tracked, s *scene) { s.disc = true }
	hasDisc := func(m *tracked, s *scene) { m.Disc, s.storing = "local:iso/x.iso", true }
	slot := func(_ *tracked, s *scene) { s.slot = true }
	runs := func(_ *tracked, s *scene) { g := *vm; g.Running = true; s.guest = &g }
	stashed := func(m *tracked, _ *scene) { m.Stashed = ago }
	woken := func(m *tracked, _ *scene) { m.Woken = ago }
	hidden := func(m *tracked, s *scene) { m.hidden, s.frozen, s.blinded = true, true, true }
	type changes = []func(*tracked, *scene)

	for _, c := range []struct {
		name string
		with changes
		want move
	}{
		// In the making, one step after the other.
		{"a new order waits for its turn", changes{at(StepOrdered)}, moveWait},
		{"a new order has its turn", changes{at(StepOrdered), slot}, moveClaim},
		{"a clone that may have been asked for is looked up", changes{at(StepClaimed)}, moveFind},
		{"so is one that is listed", changes{at(StepClaimed), listed}, moveFind},
		{"a clone in progress is waited for", changes{at(StepClaimed), task(time.Minute), running}, moveWait},
		{"a clone whose host does not tell is waited for", changes{at(StepClaimed), task(20 * time.Second)}, moveWait},
		{"for half a minute, and then it is asked for", changes{at(StepClaimed), task(time.Minute)}, moveRecall},
		{"unless it was known to run just now", changes{at(StepClaimed), task(time.Minute), heard}, moveWait},
		{"or its host is offline", changes{at(StepClaimed), task(time.Minute), unreached}, moveWait},
		{"a clone that takes too long is waited for", changes{at(StepClaimed), task(2 * time.Hour), running, hung}, moveWait},
		{"a task that is too young to be listed is waited for", changes{at(StepClaimed), task(time.Second), tasks}, moveWait},
		{"a task that is not listed is asked for", changes{at(StepClaimed), task(time.Minute), tasks}, moveRecall},
		{"a clone is proved before anything in it is changed", changes{at(StepCloned), listed}, moveVerify},
		{"a proof does not last", changes{at(StepCloned), listed, proved, func(m *tracked, _ *scene) { m.proved = now.Add(-time.Minute) }}, moveVerify},
		{"a clone that is proved gets its size", changes{at(StepCloned), listed, proved}, moveSize},
		{"then its disc, for which it need not be touched", changes{at(StepSized), listed, disc}, moveSeed},
		{"then its configuration, after another proof", changes{at(StepSeeded), listed, disc}, moveVerify},
		{"with that proof", changes{at(StepSeeded), listed, disc, proved}, moveConfigure},
		{"without a disc at once", changes{at(StepSized), listed, proved}, moveConfigure},
		{"configured it is started", changes{at(StepConfigured), listed, proved}, moveStart},
		{"started it is left to itself", changes{at(StepStarted), listed}, moveWait},
		{"as a node it needs its disc no more", changes{at(StepJoined), listed, hasDisc}, moveTidy},
		{"then it is left to itself", changes{at(StepTidied), listed}, moveWait},

		// As a spare.
		{"a machine to be kept is shut down", changes{at(StepTidied), runs, stashed}, moveStash},
		{"once its disc is gone", changes{at(StepJoined), runs, stashed}, moveTidy},
		{"or cannot be removed now", changes{at(StepJoined), runs, stashed, func(m *tracked, _ *scene) { m.tries = 1 }}, moveStash},
		{"stopped it is left to itself", changes{at(StepTidied), listed, stashed}, moveWait},
		{"it is waited for while it shuts down", changes{at(StepTidied), runs, stashed, task(time.Second), running}, moveWait},
		{"a spare that is not listed is asked for", changes{at(StepTidied), stashed}, moveProbe},
		{"one on a host that is offline is left alone", changes{at(StepTidied), runs, stashed, offline}, moveWait},
		{"one that is reclaimed goes", changes{at(StepTidied), listed, stashed, returned}, moveLeave},
		{"one that is woken is proved", changes{at(StepConfigured), listed, woken}, moveVerify},
		{"and started", changes{at(StepConfigured), listed, woken, proved}, moveStart},

		// What is not listed is unknown.
		{"a machine that is not listed is asked for", changes{at(StepTidied)}, moveProbe},
		{"a clone that is not listed too", changes{at(StepCloned)}, moveProbe},
		{"a list from before the clone had ended says nothing", changes{at(StepCloned), func(m *tracked, _ *scene) { m.Since = now.Add(time.Second) }}, moveWait},
		{"one on its way out is confirmed to be gone", changes{at(StepTidied), returned}, moveConfirm},
		{"one in quarantine is only asked for", changes{at(StepTidied), held}, moveProbe},

		// When nothing may be done, nothing is.
		{"frozen", changes{at(StepConfigured), listed, proved, frozen}, moveWait},
		{"frozen, and returned", changes{at(StepTidied), listed, returned, frozen}, moveWait},
		{"frozen because this one is hidden", changes{at(StepTidied), hidden}, moveProbe},
		{"its host is offline", changes{at(StepConfigured), listed, proved, offline}, moveWait},
		{"its host is offline, and it is not listed", changes{at(StepTidied), offline}, moveWait},
		{"its host is offline, and it is returned", changes{at(StepTidied), returned, offline}, moveWait},
		{"its host has left, and it is returned", changes{at(StepTidied), returned, deserted}, moveProbe},
		{"its host has left, and its clone may have been asked for", changes{at(StepClaimed), deserted}, moveProbe},
		{"its host has left, and it was never asked for", changes{at(StepOrdered), slot, deserted}, moveWait},
		{"its host has left, and a task elsewhere is not over", changes{at(StepTidied), returned, deserted, task(time.Minute), running}, moveWait},
		{"its host has left, and it is in quarantine", changes{at(StepTidied), held, deserted}, moveProbe},
		{"its host has left, and it is hidden", changes{at(StepTidied), hidden, deserted}, moveProbe},
		{"its host has left, and nothing may be changed", changes{at(StepTidied), returned, deserted, frozen}, moveWait},
		{"a call for it is under way", changes{at(StepOrdered), slot, func(m *tracked, _ *scene) { m.busy = true }}, moveWait},
		{"it rests", changes{at(StepOrdered), slot, func(m *tracked, _ *scene) { m.rest = now.Add(time.Second) }}, moveWait},
		{"a host that it needs does not answer", changes{at(StepOrdered), slot, func(_ *tracked, s *scene) { s.hushed = true }}, moveWait},
		{"it has rested", changes{at(StepOrdered), slot, func(m *tracked, _ *scene) { m.rest = now }}, moveClaim},
		{"it is in quarantine", changes{at(StepConfigured), listed, held}, moveWait},
		{"it is in quarantine, and returned", changes{at(StepTidied), listed, held, returned}, moveWait},

		// On its way out.
		{"returned while its clone may have been asked for", changes{at(StepClaimed), returned}, moveFind},
		{"returned while it is cloned", changes{at(StepClaimed), returned, task(time.Minute), running}, moveWait},
		{"returned while its clone takes too long", changes{at(StepClaimed), returned, task(2 * time.Hour), running, hung}, moveCancel},
		{"whether or not anybody tells of it", changes{at(StepClaimed), returned, task(2 * time.Hour), hung}, moveCancel},
		{"not while its host is offline", changes{at(StepClaimed), returned, task(2 * time.Hour), hung, unreached}, moveWait},
		{"not while nothing may be changed", changes{at(StepClaimed), returned, task(2 * time.Hour), running, hung, frozen}, moveWait},
		{"returned while its destruction takes too long", changes{at(StepTidied), listed, returned, task(2 * time.Hour), destroys, running, hung}, moveWait},
		{"returned when it was cloned", changes{at(StepCloned), listed, returned}, moveLeave},
		{"returned as a node", changes{at(StepTidied), listed, returned}, moveLeave},
		{"returned when it had failed", changes{at(StepStarted), listed, failed, returned}, moveLeave},

		// Failed.
		{"a failure is explained", changes{at(StepStarted), listed, failed, func(m *tracked, _ *scene) { m.Last = "UPID:..." }}, moveExplain},
		{"once", changes{at(StepStarted), listed, failed, func(m *tracked, _ *scene) { m.Last, m.Hints = "UPID:...", []string{"x"} }}, moveWait},
		{"before anything was made there is nothing to explain", changes{at(StepOrdered), failed}, moveWait},

		// Gone.
		{"its disc is left", changes{at(StepTidied), gone, hasDisc}, moveSweep},
		{"nobody knows its pool", changes{at(StepTidied), gone, func(_ *tracked, s *scene) { s.unknown = true }}, moveWait},
		{"its disc is left on a host that is offline", changes{at(StepTidied), gone, hasDisc, func(_ *tracked, s *scene) { s.storing = false }}, moveWait},
		{"its disc is being removed", changes{at(StepTidied), gone, hasDisc, task(time.Second)}, moveWait},
		{"nobody tells how that went", changes{at(StepTidied), gone, hasDisc, task(time.Minute)}, moveRecall},
		{"nobody tells how that went, and nothing may be changed", changes{at(StepTidied), gone, hasDisc, task(time.Minute), frozen}, moveWait},
		{"its disc is left, and nothing may be changed", changes{at(StepTidied), gone, hasDisc, frozen}, moveWait},
		{"its node is left", changes{at(StepTidied), gone, func(_ *tracked, s *scene) { s.unnode = true }}, moveSweep},
		{"its VMID cools down", changes{at(StepTidied), gone, func(_ *tracked, s *scene) { s.cooldown = 2 * time.Hour }}, moveWait},
		{"its VMID has cooled down", changes{at(StepTidied), gone}, moveForget},
		{"its failure still counts", changes{at(StepTidied), gone, failed, func(_ *tracked, s *scene) { s.blamed = true }}, moveWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &tracked{Intent: Intent{Order: "1", Pool: "web", Name: "web-1", Host: "pve1", VMID: 1001}}
			s := &scene{now: now, seen: now, online: true, reached: true}
			for _, change := range c.with {
				change(m, s)
			}
			if got := m.next(s); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// The phase that the loop sees follows from the intent alone.
func TestPhases(t *testing.T) {
	then := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, s := range steps {
		want := nodescaler.Joined
		switch s {
		case StepOrdered, StepClaimed, StepCloned, StepSized, StepSeeded, StepConfigured:
			want = nodescaler.Ordered
		case StepStarted:
			want = nodescaler.Booting
		case StepJoined, StepTidied:
		}
		i := Intent{Step: s}
		if got := i.phase(); got != want {
			t.Errorf("%s is %s, want %s", s, got, want)
		}
		i.Stashed = then
		if got := i.phase(); got != nodescaler.Spare {
			t.Errorf("%s and stashed is %s", s, got)
		}
		i.Failed = &nodescaler.Reason{}
		if got := i.phase(); got != nodescaler.Failed {
			t.Errorf("%s and failed is %s", s, got)
		}
		i.Returned = then
		if got := i.phase(); got != nodescaler.Deleting {
			t.Errorf("%s, failed and returned is %s", s, got)
		}
	}
}

func TestStepsAreInOrder(t *testing.T) {
	for i, s := range steps {
		for j, o := range steps {
			if s.before(o) != (i < j) {
				t.Errorf("%s before %s is %t", s, o, s.before(o))
			}
		}
	}
}
