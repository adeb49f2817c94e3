package pve

import (
	"slices"
	"strconv"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// What a machine needs next follows from its intent and from what was seen, and from nothing else.
// So it does not matter at which moment the process died: whoever reads the intent and looks comes
// to the same next call, and each call is one that does no harm when it is made twice.

// move is the next thing to do for a machine.
type move string

const (
	moveWait      move = "wait"      // nothing can be done now
	moveClaim     move = "claim"     // test the VMID and ask for the clone
	moveFind      move = "find"      // see what became of a clone
	moveVerify    move = "verify"    // read the machine and prove that it is ours
	moveSeed      move = "seed"      // upload its first-boot disc
	moveConfigure move = "configure" // write its configuration
	moveSize      move = "size"      // grow its disk
	moveStart     move = "start"     // start it
	moveTidy      move = "tidy"      // take the first-boot disc out and remove it
	moveExplain   move = "explain"   // collect what may say why it failed
	moveProbe     move = "probe"     // it should be listed and is not: ask whether it exists
	moveRecall    move = "recall"    // ask for a task that is not listed
	moveCancel    move = "cancel"    // end a task that takes too long, of a machine that is to go
	moveStash     move = "stash"     // prove that it is ours, and shut it down, to be kept or not
	moveRevive    move = "revive"    // see whether it is to be started that has stopped by itself
	moveRestart   move = "restart"   // start it again
	moveLeave     move = "leave"     // prove that it is ours, and shut down, stop or destroy it
	moveConfirm   move = "confirm"   // ask whether it is gone
	moveSweep     move = "sweep"     // remove what is left of one that is gone
	moveForget    move = "forget"    // its VMID may be used again
)

// scene is what of the world a machine's next move depends on.
type scene struct {
	now         time.Time
	frozen      bool
	blinded     bool             // because machines cannot be seen
	seen        time.Time        // when the machines were listed
	online      bool             // its host
	deserted    bool             // its host has left the cluster, and nothing says that it runs
	storing     bool             // the host that its first-boot disc is kept by
	guest       *placement.Guest // listed under its VMID
	slot        bool             // a clone may begin
	hostSilent  bool             // a host that it needs does not answer
	reached     bool             // the host of its task is online
	tasksListed bool             // the tasks of that host were listed
	running     bool             // the task is among them, and runs
	disc        bool             // it needs a first-boot disc
	down        bool             // it has stopped by itself, some time ago
	blamed      bool             // its failure still counts
	unknown     bool             // its pool is not known, and may be again
	cooldown    time.Duration
	unnode      bool // its node object is to be removed
	counted     bool // the brake counts it still
}

// tells reports whether a machine that is not listed is known to be gone.
func (s *scene) tells() bool { return s.online || s.deserted }

const (
	// proofLasts is how long after a machine was proved to be ours it is taken to be: long enough
	// for the next call, and for nothing else.
	proofLasts = 2 * time.Second
	// taskListed is how long after it began a task may be missing from the list.
	taskListed = 10 * time.Second
	// tasksUnlisted is how long a host may fail to list its tasks before it is asked for the one.
	tasksUnlisted = 30 * time.Second
	// unknownFor is how long a pool may be unknown before what is left of its machines is
	// forgotten. A process that starts has read none yet, and one that cannot be read for a moment
	// comes back as it was.
	unknownFor = 24 * time.Hour
	// What has been gone for longGone is forgotten after unknownAgain: a process that is started
	// anew each day would never wait for unknownFor, but reads the pools that there are long before
	// this is over.
	longGone, unknownAgain = 7 * 24 * time.Hour, time.Hour
)

// next says what a machine needs next.
func (m *tracked) next(s *scene) move {
	switch {
	case m.rests(s):
		return moveWait
	case !m.Gone.IsZero():
		return m.afterwards(s)
	case s.frozen && m.hidden && s.blinded && s.tells() && s.guest == nil:
		return moveProbe // it is what others wait for
	case s.frozen:
		return moveWait
	case m.Task != nil:
		return m.nextOfTask(s)
	case s.deserted && m.Step != intents.StepOrdered:
		return moveProbe // its VMID is free, or another machine has it
	case m.Step == intents.StepOrdered && m.Failed != nil || !s.online:
		return moveWait // there is nothing, or no host to ask
	case m.Held != nil:
		return m.nextHeld(s)
	case !m.Returned.IsZero():
		return m.nextOut(s)
	case m.Failed != nil:
		return m.nextFailed()
	case !m.Stashed.IsZero():
		return m.nextSpare(s)
	case m.rebooting():
		return m.nextReboot(s)
	}
	return m.nextIn(s)
}

// rests reports whether nothing is to be tried now, even if the machine needs it.
func (m *tracked) rests(s *scene) bool { return m.busy || s.hostSilent || m.rest.After(s.now) }

// nextSpare is the next move of a machine that is to be stopped and kept.
func (m *tracked) nextSpare(s *scene) move {
	switch {
	case s.guest == nil:
		return m.nextUnlisted(s)
	case m.Step == intents.StepJoined && (m.tries == 0 || s.guest.Stopped):
		return moveTidy // the disc holds the join token, and may lie about for long otherwise
	case s.guest.Running:
		return moveStash
	}
	return moveWait
}

// nextOfTask is the next move of a machine that waits for a task.
func (m *tracked) nextOfTask(s *scene) move {
	heard := m.Task.At
	if m.heard.After(heard) {
		heard = m.heard
	}
	silent := s.now.Sub(heard)
	switch {
	case !s.reached:
		return moveWait
	case m.hung && !m.Returned.IsZero() && m.Task.Kind.Hinders():
		return moveCancel
	case s.tasksListed && !s.running && silent > taskListed, !s.tasksListed && silent > tasksUnlisted:
		return moveRecall
	}
	return moveWait
}

// nextHeld is the next move of a machine in quarantine: to see whether a person has removed it.
func (m *tracked) nextHeld(s *scene) move {
	if s.guest == nil {
		return m.nextUnlisted(s)
	}
	return moveWait
}

// nextUnlisted is the next move of a machine that is not listed. A list that was read before the
// machine came to where it is says nothing.
func (m *tracked) nextUnlisted(s *scene) move {
	if m.Since.After(s.seen) {
		return moveWait
	}
	return moveProbe
}

func (m *tracked) nextFailed() move {
	if len(m.Hints) == 0 && m.Last != "" {
		return moveExplain
	}
	return moveWait
}

// nextIn is the next move of a machine in the making.
func (m *tracked) nextIn(s *scene) move {
	switch {
	case m.Step == intents.StepOrdered && s.slot:
		return moveClaim
	case m.Step == intents.StepOrdered:
		return moveWait
	case m.Step == intents.StepClaimed:
		return moveFind
	case s.guest == nil:
		return m.nextUnlisted(s)
	case s.down && s.guest.Stopped:
		return moveRevive
	case m.Step == intents.StepStarted || m.Step == intents.StepTidied:
		return moveWait
	case m.Step == intents.StepJoined:
		return moveTidy
	case m.Step == intents.StepSized && s.disc:
		return moveSeed
	case m.conf == nil || s.now.Sub(m.proved) > proofLasts:
		return moveVerify
	case m.Step == intents.StepCloned:
		return moveSize
	case m.Step == intents.StepSized || m.Step == intents.StepSeeded:
		return moveConfigure
	}
	return moveStart
}

// nextOut is the next move of a machine that was reclaimed.
func (m *tracked) nextOut(s *scene) move {
	switch {
	case m.Step == intents.StepClaimed:
		return moveFind
	case s.guest == nil:
		return moveConfirm
	case m.Failed != nil && m.Exit == intents.ExitNone && m.nextFailed() == moveExplain:
		return moveExplain // what may say why is gone with it
	}
	return moveLeave
}

// afterwards is the next move for what is left of a machine that is gone.
func (m *tracked) afterwards(s *scene) move {
	switch {
	case m.Task != nil && s.frozen:
		return moveWait
	case m.Task != nil:
		return m.nextOfTask(s)
	case m.Disc != "" && !s.frozen && s.storing, s.unnode && !m.NodeGone:
		return moveSweep
	case m.Disc != "" || s.blamed || s.unknown || s.counted || s.now.Sub(m.Gone) < s.cooldown:
		return moveWait
	}
	return moveForget
}

// agenda is what machines do next, and which of them have to wait for others.
type agenda struct {
	cfg       *FleetConfig
	catalogue *catalogue
	roster    *roster
	view      *view
	members   *members
	ownership *ownership
	holds     *holds
}

// scene puts together what a machine's next move depends on.
func (ag *agenda) scene(m *tracked) *scene {
	v := ag.view
	p := ag.catalogue.pools[m.Pool]
	recipe, now := ag.catalogue.recipe[m.Pool], ag.cfg.Now()
	s := &scene{
		now: now, frozen: v.frozen != nil || v.seen == nil, blamed: m.Blamed(recipe, now) || m.BlamesHost(recipe, now),
		unnode: ag.cfg.RemoveNode != nil && !m.Joined.IsZero(), counted: ag.holds.undrained(m),
	}
	if p != nil {
		s.cooldown, s.disc = time.Duration(p.Cooldown), p.NeedsDisc()
	} else {
		s.frozen = true // no setting says any more how to know its machines
		s.unknown = ag.catalogue.mayBeKnown(m)
	}
	if ag.ownership.closed(m) { // it is another cluster's
		s.frozen = true
	}
	if m.unsaved { // what is not kept must be, before anything else is done
		s.frozen = true
	}
	if v.seen == nil {
		return s
	}
	// Without its pool there is nowhere to look.
	s.blinded = v.frozen != nil && v.frozen.Code == pvecode.PermissionsShrunk && !m.unsaved && p != nil
	s.seen = v.seen.At
	s.online, s.guest = v.seen.Online(m.Host), v.seen.Guests[m.VMID]
	s.deserted, s.hostSilent = ag.deserted(m), ag.hostSilent(m)
	s.storing, s.down = v.seen.Online(m.DiscHost), p != nil && ag.revives(m, p)
	if m.Task != nil {
		s.reached, s.tasksListed = v.seen.Online(m.Task.Host), v.tasksFrom[m.Task.Host]
		s.running = v.tasks[pveapi.UPID(m.Task.UPID)].Running
	}
	return s
}

// turns are what orders wait for: the places that their pools have left, and the locks that clones
// hold. They are counted once for all orders, of which hundreds may wait among a thousand machines.
type turns struct {
	left  map[string]int // machines by pool
	clone map[string]int // clones by lock
	// unsettled pools may be another cluster's.
	unsettled map[string]bool
}

// turns counts the places in pools, and clones: not more than a few at a time on a storage, nor of
// a template. The next one would only wait for the same lock, and fail when the wait is over.
func (ag *agenda) turns() *turns {
	t := &turns{left: map[string]int{}, clone: map[string]int{}, unsettled: map[string]bool{}}
	for name, p := range ag.catalogue.pools {
		t.left[name], t.unsettled[name] = p.Max-ag.ownership.unknown(p), ag.ownership.unsettled(p) != nil
	}
	for _, o := range ag.roster.machines {
		// One that is busy: its clone is just being asked for.
		if o.Step == intents.StepOrdered && !o.busy || !o.Gone.IsZero() {
			continue
		}
		t.left[o.Pool]--
		cloning := (o.Step == intents.StepClaimed || o.Step == intents.StepOrdered) && o.Held == nil && (o.Failed == nil || o.Task != nil)
		if p := ag.catalogue.pools[o.Pool]; cloning && p != nil {
			for _, l := range ag.view.locks(p, o) {
				t.clone[l]++
			}
		}
	}
	return t
}

// slot reports whether the clone of an order may begin. Machines that were found meanwhile count,
// even if they were unknown when it was taken.
func (ag *agenda) slot(t *turns, m *tracked) bool {
	locks := ag.view.locks(ag.catalogue.pools[m.Pool], m)
	return t.left[m.Pool] > 0 && !t.unsettled[m.Pool] && !slices.ContainsFunc(locks, func(l string) bool { return t.clone[l] >= ag.cfg.ClonesPerStorage })
}

// locks names what a machine's clone holds. One that takes too long may hold it for ever: the next
// ones do not wait for that, and if it does they fail to get the lock in a few seconds and try
// again.
func (v *view) locks(p *settings.Pool, m *tracked) []string {
	if m.hung {
		return nil
	}
	t := v.templates[p.Template.On(m.Host)]
	name, _ := p.Places().Disks(t, m.Shape)
	at := t.Host
	if st := v.seen.Store(name, at); st != nil && st.Shared {
		at = ""
	}
	return []string{"storage " + name + " " + at, "template " + itoa(t.VMID)}
}

func itoa(n int) string { return strconv.Itoa(n) }

// deserted reports whether a machine was on a host that has left, and nothing says that it runs.
// The host may have been parted from the others and run on: then the machine's node is ready.
func (ag *agenda) deserted(m *tracked) bool {
	if !ag.view.left(m.Host) || ag.view.seen.Guests[m.VMID] != nil || ag.cfg.Nodes != nil && ag.members.nodes == nil {
		return false
	}
	n, _ := ag.members.nodeOf(m)
	return !n.Ready && ag.members.contradicted(m) == nil
}

// hostSilent reports whether a host that a machine's next move may be for is silent.
func (ag *agenda) hostSilent(m *tracked) bool {
	if len(ag.view.silent) == 0 {
		return false
	}
	asked := m.hosts()
	if p := ag.catalogue.pools[m.Pool]; p != nil && m.Step.Before(intents.StepCloned) {
		asked = append(asked, ag.view.templates[p.Template.On(m.Host)].Host)
	}
	return slices.ContainsFunc(asked, func(host string) bool { return !ag.view.silent[host].IsZero() })
}
