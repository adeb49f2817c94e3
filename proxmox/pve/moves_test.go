package pve

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// What a machine needs next, by its intent and by what is seen: the whole state machine.
func TestNextMove(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := now.Add(-time.Hour)
	vm := &placement.Guest{VMID: 1001, Host: "pve1", Name: "web-1", Stopped: true}
	at := func(s intents.Step) func(*tracked, *scene) { return func(m *tracked, _ *scene) { m.Step = s } }
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
		return func(m *tracked, _ *scene) { m.Task = &intents.Task{Kind: intents.TaskClone, At: now.Add(-age)} }
	}
	destroys := func(m *tracked, _ *scene) { m.Task.Kind = intents.TaskDestroy }
	heard := func(m *tracked, _ *scene) { m.heard = now.Add(-time.Second) }
	hung := func(m *tracked, _ *scene) { m.hung = true }
	unreached := func(_ *tracked, s *scene) { s.reached = false }
	tasks := func(_ *tracked, s *scene) { s.tasksListed = true }
	running := func(_ *tracked, s *scene) { s.tasksListed, s.running = true, true }
	disc := func(_ *tracked, s *scene) { s.disc = true }
	hasDisc := func(m *tracked, s *scene) { m.Disc, s.storing = "local:iso/x.iso", true }
	slot := func(_ *tracked, s *scene) { s.slot = true }
	runs := func(_ *tracked, s *scene) { g := *vm; g.Running, g.Stopped = true, false; s.guest = &g }
	unknown := func(_ *tracked, s *scene) { g := *vm; g.Stopped = false; s.guest = &g }
	down := func(_ *tracked, s *scene) { s.down = true }
	stashed := func(m *tracked, _ *scene) { m.Stashed = ago }
	woken := func(m *tracked, _ *scene) { m.Woken = ago }
	reboot := func(r intents.Reboot) func(*tracked, *scene) { return func(m *tracked, _ *scene) { m.Reboot = r } }
	hidden := func(m *tracked, s *scene) { m.hidden, s.frozen, s.blinded = true, true, true }
	type changes = []func(*tracked, *scene)

	for _, c := range []struct {
		name string
		with changes
		want move
	}{
		// In the making, one step after the other.
		{"a new order waits for its turn", changes{at(intents.StepOrdered)}, moveWait},
		{"a new order has its turn", changes{at(intents.StepOrdered), slot}, moveClaim},
		{"a clone that may have been asked for is looked up", changes{at(intents.StepClaimed)}, moveFind},
		{"so is one that is listed", changes{at(intents.StepClaimed), listed}, moveFind},
		{"a clone in progress is waited for", changes{at(intents.StepClaimed), task(time.Minute), running}, moveWait},
		{"a clone whose host does not tell is waited for", changes{at(intents.StepClaimed), task(20 * time.Second)}, moveWait},
		{"for half a minute, and then it is asked for", changes{at(intents.StepClaimed), task(time.Minute)}, moveRecall},
		{"unless it was known to run just now", changes{at(intents.StepClaimed), task(time.Minute), heard}, moveWait},
		{"or its host is offline", changes{at(intents.StepClaimed), task(time.Minute), unreached}, moveWait},
		{"a clone that takes too long is waited for", changes{at(intents.StepClaimed), task(2 * time.Hour), running, hung}, moveWait},
		{"a task that is too young to be listed is waited for", changes{at(intents.StepClaimed), task(time.Second), tasks}, moveWait},
		{"a task that is not listed is asked for", changes{at(intents.StepClaimed), task(time.Minute), tasks}, moveRecall},
		{"a clone is proved before anything in it is changed", changes{at(intents.StepCloned), listed}, moveVerify},
		{"a proof does not last", changes{at(intents.StepCloned), listed, proved, func(m *tracked, _ *scene) { m.proved = now.Add(-time.Minute) }}, moveVerify},
		{"a clone that is proved gets its size", changes{at(intents.StepCloned), listed, proved}, moveSize},
		{"then its disc, for which it need not be touched", changes{at(intents.StepSized), listed, disc}, moveSeed},
		{"then its configuration, after another proof", changes{at(intents.StepSeeded), listed, disc}, moveVerify},
		{"with that proof", changes{at(intents.StepSeeded), listed, disc, proved}, moveConfigure},
		{"without a disc at once", changes{at(intents.StepSized), listed, proved}, moveConfigure},
		{"configured it is started", changes{at(intents.StepConfigured), listed, proved}, moveStart},
		{"started it is left to itself", changes{at(intents.StepStarted), listed}, moveWait},
		{"as a node it needs its disc no more", changes{at(intents.StepJoined), listed, hasDisc}, moveTidy},
		{"then it is left to itself", changes{at(intents.StepTidied), listed}, moveWait},

		// As a spare.
		{"a machine to be kept is shut down", changes{at(intents.StepTidied), runs, stashed}, moveStash},
		{"once its disc is gone", changes{at(intents.StepJoined), runs, stashed}, moveTidy},
		{"or cannot be removed now", changes{at(intents.StepJoined), runs, stashed, func(m *tracked, _ *scene) { m.tries = 1 }}, moveStash},
		{"stopped it is left to itself", changes{at(intents.StepTidied), listed, stashed}, moveWait},
		{"it is waited for while it shuts down", changes{at(intents.StepTidied), runs, stashed, task(time.Second), running}, moveWait},
		{"a spare that is not listed is asked for", changes{at(intents.StepTidied), stashed}, moveProbe},
		{"one on a host that is offline is left alone", changes{at(intents.StepTidied), runs, stashed, offline}, moveWait},
		{"one that is reclaimed goes", changes{at(intents.StepTidied), listed, stashed, returned}, moveLeave},
		{"one that is woken is proved", changes{at(intents.StepConfigured), listed, woken}, moveVerify},
		{"and started", changes{at(intents.StepConfigured), listed, woken, proved}, moveStart},

		// What is not listed is unknown.
		{"a machine that is not listed is asked for", changes{at(intents.StepTidied)}, moveProbe},
		{"a clone that is not listed too", changes{at(intents.StepCloned)}, moveProbe},
		{"a list from before the clone had ended says nothing", changes{at(intents.StepCloned), func(m *tracked, _ *scene) { m.Since = now.Add(time.Second) }}, moveWait},
		{"one on its way out is confirmed to be gone", changes{at(intents.StepTidied), returned}, moveConfirm},
		{"one in quarantine is only asked for", changes{at(intents.StepTidied), held}, moveProbe},

		// When nothing may be done, nothing is.
		{"frozen", changes{at(intents.StepConfigured), listed, proved, frozen}, moveWait},
		{"frozen, and returned", changes{at(intents.StepTidied), listed, returned, frozen}, moveWait},
		{"frozen because this one is hidden", changes{at(intents.StepTidied), hidden}, moveProbe},
		{"its host is offline", changes{at(intents.StepConfigured), listed, proved, offline}, moveWait},
		{"its host is offline, and it is not listed", changes{at(intents.StepTidied), offline}, moveWait},
		{"its host is offline, and it is returned", changes{at(intents.StepTidied), returned, offline}, moveWait},
		{"its host has left, and it is returned", changes{at(intents.StepTidied), returned, deserted}, moveProbe},
		{"its host has left, and its clone may have been asked for", changes{at(intents.StepClaimed), deserted}, moveProbe},
		{"its host has left, and it was never asked for", changes{at(intents.StepOrdered), slot, deserted}, moveWait},
		{"its host has left, and a task elsewhere is not over", changes{at(intents.StepTidied), returned, deserted, task(time.Minute), running}, moveWait},
		{"its host has left, and it is in quarantine", changes{at(intents.StepTidied), held, deserted}, moveProbe},
		{"its host has left, and it is hidden", changes{at(intents.StepTidied), hidden, deserted}, moveProbe},
		{"its host has left, and nothing may be changed", changes{at(intents.StepTidied), returned, deserted, frozen}, moveWait},
		{"a call for it is under way", changes{at(intents.StepOrdered), slot, func(m *tracked, _ *scene) { m.busy = true }}, moveWait},
		{"it rests", changes{at(intents.StepOrdered), slot, func(m *tracked, _ *scene) { m.rest = now.Add(time.Second) }}, moveWait},
		{"a host that it needs does not answer", changes{at(intents.StepOrdered), slot, func(_ *tracked, s *scene) { s.hostSilent = true }}, moveWait},
		{"it has rested", changes{at(intents.StepOrdered), slot, func(m *tracked, _ *scene) { m.rest = now }}, moveClaim},
		{"it is in quarantine", changes{at(intents.StepConfigured), listed, held}, moveWait},
		{"it is in quarantine, and returned", changes{at(intents.StepTidied), listed, held, returned}, moveWait},

		// Rebooted.
		{"it runs and is to be stopped", changes{at(intents.StepTidied), runs, reboot(intents.RebootStop)}, moveStash},
		{"it is stopped, which is yet to be noted", changes{at(intents.StepTidied), listed, reboot(intents.RebootStop)}, moveWait},
		{"it is to be started, and not proved", changes{at(intents.StepTidied), listed, reboot(intents.RebootStart)}, moveVerify},
		{"it is proved", changes{at(intents.StepTidied), listed, proved, reboot(intents.RebootStart)}, moveRestart},
		{"it runs again, which is yet to be noted", changes{at(intents.StepTidied), runs, reboot(intents.RebootStart)}, moveWait},
		{"it is to be started, and may run", changes{at(intents.StepTidied), unknown, proved, reboot(intents.RebootStart)}, moveWait},
		{"it is to be stopped, and may be", changes{at(intents.StepTidied), unknown, reboot(intents.RebootStop)}, moveWait},
		{"it is not listed", changes{at(intents.StepTidied), reboot(intents.RebootStart)}, moveProbe},
		{"it is returned meanwhile", changes{at(intents.StepTidied), runs, returned, reboot(intents.RebootStop)}, moveLeave},

		// Stopped by itself.
		{"it has stopped", changes{at(intents.StepTidied), listed, down}, moveRevive},
		{"its disc is there still", changes{at(intents.StepJoined), listed, hasDisc, down}, moveRevive},
		{"it may run", changes{at(intents.StepTidied), unknown, down}, moveWait},
		{"its host is offline", changes{at(intents.StepTidied), listed, down, offline}, moveWait},
		{"it is in quarantine", changes{at(intents.StepTidied), listed, down, held}, moveWait},
		{"it is a spare", changes{at(intents.StepTidied), listed, down, stashed}, moveWait},
		{"it is returned", changes{at(intents.StepTidied), listed, down, returned}, moveLeave},
		{"it has failed", changes{at(intents.StepTidied), listed, down, failed}, moveWait},
		{"it is being started", changes{at(intents.StepTidied), listed, down, proved, reboot(intents.RebootStart)}, moveRestart},

		// On its way out.
		{"returned while its clone may have been asked for", changes{at(intents.StepClaimed), returned}, moveFind},
		{"returned while it is cloned", changes{at(intents.StepClaimed), returned, task(time.Minute), running}, moveWait},
		{"returned while its clone takes too long", changes{at(intents.StepClaimed), returned, task(2 * time.Hour), running, hung}, moveCancel},
		{"whether or not anybody tells of it", changes{at(intents.StepClaimed), returned, task(2 * time.Hour), hung}, moveCancel},
		{"not while its host is offline", changes{at(intents.StepClaimed), returned, task(2 * time.Hour), hung, unreached}, moveWait},
		{"not while nothing may be changed", changes{at(intents.StepClaimed), returned, task(2 * time.Hour), running, hung, frozen}, moveWait},
		{"returned while its destruction takes too long", changes{at(intents.StepTidied), listed, returned, task(2 * time.Hour), destroys, running, hung}, moveWait},
		{"returned when it was cloned", changes{at(intents.StepCloned), listed, returned}, moveLeave},
		{"returned as a node", changes{at(intents.StepTidied), listed, returned}, moveLeave},
		{"returned when it had failed", changes{at(intents.StepStarted), listed, failed, returned}, moveLeave},

		// Failed.
		{"a failure is explained", changes{at(intents.StepStarted), listed, failed, func(m *tracked, _ *scene) { m.Last = "UPID:..." }}, moveExplain},
		{"once", changes{at(intents.StepStarted), listed, failed, func(m *tracked, _ *scene) { m.Last, m.Hints = "UPID:...", []string{"x"} }}, moveWait},
		{"before anything was made there is nothing to explain", changes{at(intents.StepOrdered), failed}, moveWait},

		// Gone.
		{"its disc is left", changes{at(intents.StepTidied), gone, hasDisc}, moveSweep},
		{"nobody knows its pool", changes{at(intents.StepTidied), gone, func(_ *tracked, s *scene) { s.unknown = true }}, moveWait},
		{"its disc is left on a host that is offline", changes{at(intents.StepTidied), gone, hasDisc, func(_ *tracked, s *scene) { s.storing = false }}, moveWait},
		{"its disc is being removed", changes{at(intents.StepTidied), gone, hasDisc, task(time.Second)}, moveWait},
		{"nobody tells how that went", changes{at(intents.StepTidied), gone, hasDisc, task(time.Minute)}, moveRecall},
		{"nobody tells how that went, and nothing may be changed", changes{at(intents.StepTidied), gone, hasDisc, task(time.Minute), frozen}, moveWait},
		{"its disc is left, and nothing may be changed", changes{at(intents.StepTidied), gone, hasDisc, frozen}, moveWait},
		{"its node is left", changes{at(intents.StepTidied), gone, func(_ *tracked, s *scene) { s.unnode = true }}, moveSweep},
		{"its VMID cools down", changes{at(intents.StepTidied), gone, func(_ *tracked, s *scene) { s.cooldown = 2 * time.Hour }}, moveWait},
		{"its VMID has cooled down", changes{at(intents.StepTidied), gone}, moveForget},
		{"its failure still counts", changes{at(intents.StepTidied), gone, failed, func(_ *tracked, s *scene) { s.blamed = true }}, moveWait},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &tracked{Intent: intents.Intent{Order: "1", Pool: "web", Name: "web-1", Host: "pve1", VMID: 1001}}
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
	for _, s := range intents.Steps {
		want := nodescaler.Joined
		switch s {
		case intents.StepOrdered, intents.StepClaimed, intents.StepCloned, intents.StepSized, intents.StepSeeded, intents.StepConfigured:
			want = nodescaler.Ordered
		case intents.StepStarted:
			want = nodescaler.Booting
		case intents.StepJoined, intents.StepTidied:
		}
		i := intents.Intent{Step: s}
		if got := i.Phase(); got != want {
			t.Errorf("%s is %s, want %s", s, got, want)
		}
		i.Stashed = then
		if got := i.Phase(); got != nodescaler.Spare {
			t.Errorf("%s and stashed is %s", s, got)
		}
		i.Failed = &nodescaler.Reason{}
		if got := i.Phase(); got != nodescaler.Failed {
			t.Errorf("%s and failed is %s", s, got)
		}
		i.Returned = then
		if got := i.Phase(); got != nodescaler.Deleting {
			t.Errorf("%s, failed and returned is %s", s, got)
		}
	}
}

func TestStepsAreInOrder(t *testing.T) {
	for i, s := range intents.Steps {
		for j, o := range intents.Steps {
			if s.Before(o) != (i < j) {
				t.Errorf("%s before %s is %t", s, o, s.Before(o))
			}
		}
	}
}
