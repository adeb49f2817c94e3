package pve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// view is what the fleet knows of the cluster.
type view struct {
	seen      *placement.Sight // nil before the first look
	templates map[int]placement.TemplateSeen
	bridges   map[string][]string               // by host
	surveyed  time.Time                         // templates and bridges were read
	rights    pveapi.Permissions                // what the token may do, as it was at first
	asked     time.Time                         // and when that was last read
	lacks     []string                          // privileges that are gone since
	tasks     map[pveapi.UPID]pveapi.TaskStatus // of the hosts in tasksFrom
	tasksFrom map[string]bool                   // hosts whose tasks were listed in this look
	known     map[string]bool                   // and in any
	resting   map[string]time.Time              // that did not answer a look, until when they rest
	silent    map[string]time.Time              // that did not answer a move, and since when
	// Clones of a pool's templates that no intent knows of.
	clones   map[string]int
	frozen   *nodescaler.Reason // why nothing is changed now
	hidden   int                // machines that exist and are not listed
	failed   error              // of the last look
	failures int                // of looks in a row
	emptied  bool               // all guests vanished from the list at once
	missing  map[string]absence // hosts of machines that are none of the cluster's
	// What was in the way of orders then, or of pools since.
	barred int
}

const (
	surveyEvery = 10 * time.Minute // templates and bridges
	rightsEvery = 5 * time.Minute  // permissions, while all is well
	doubtEvery  = 30 * time.Second // and while something is missing
	lookGap     = 2 * time.Second  // between looks, while machines are on their way
	idleGap     = 15 * time.Second // and while all is quiet
)

// lookout looks at the cluster, and keeps what it sees in the view.
type lookout struct {
	*ground

	news chan struct{} // rung when orders can be taken that could not be taken before
}

// untried says that nothing was read, and that it was not tried either.
func (v *view) untried() bool { return v.seen == nil && v.failed == nil }

// blind says that what was seen is nothing to go by.
func (v *view) blind(now time.Time) *nodescaler.Reason {
	switch {
	case v.untried():
		return no(pvecode.NoInventory, "Proxmox VE: %v", loop.ErrUnread)
	case v.seen == nil:
		return no(pvecode.NoInventory, "Proxmox VE has not been read: %v", v.failed)
	case now.Sub(v.seen.At) > maxAge:
		return no(pvecode.NoInventory, "Proxmox VE was last read %s ago: %v", now.Sub(v.seen.At).Round(time.Second), v.failed)
	}
	return nil
}

// look reads the cluster, in two calls, and one for each host that works for us. What is read
// seldom is added when it is due.
func (lo *lookout) look(ctx context.Context) error {
	now := lo.cfg.Now()
	seen, err := lo.readCluster(ctx)
	if err == nil {
		lo.survey(ctx, seen, now)
		lo.readTasks(ctx, seen)
		err = lo.readRights(ctx, now)
	}
	lo.mu.Lock()
	defer lo.records.unlock()
	lo.view.failed = err
	lo.view.failures++
	if err == nil {
		lo.view.failures = 0
		lo.view.see(seen)
		lo.missHosts()
		lo.countClones()
	}
	lo.freeze()
	lo.unbar()
	return err
}

// readCluster reads who is there: hosts, machines and storages.
func (lo *lookout) readCluster(ctx context.Context) (*placement.Sight, error) {
	at := lo.cfg.Now()
	status, err := lo.client.ClusterStatus(ctx)
	if err != nil {
		return nil, err
	}
	resources, err := lo.client.Resources(ctx)
	if err != nil {
		return nil, err
	}
	s := &placement.Sight{At: at, Quorate: status.Quorate, Whole: status.Whole, Guests: map[int]*placement.Guest{}}
	byName := map[string]*pveapi.Resource{}
	for i := range resources {
		r := &resources[i]
		switch r.Type {
		case "node":
			byName[r.Node] = r
		case "qemu", "lxc":
			s.Guests[r.VMID] = SeenGuest(r)
		case "storage":
			s.Stores = append(s.Stores, store(r))
		}
	}
	for _, n := range status.Nodes {
		h := placement.Host{Name: n.Name, Online: n.Online}
		if r := byName[n.Name]; r != nil {
			h.CPUs, h.Memory = int(value(r.MaxCPU)), pricing.Bytes(value(r.MaxMem))
			h.Maintenance = r.HAState == "maintenance"
		}
		s.Hosts = append(s.Hosts, h)
	}
	slices.SortFunc(s.Hosts, func(a, b placement.Host) int { return cmp.Compare(a.Name, b.Name) })
	for _, g := range s.Guests { // what is listed of a host that is offline is what was last known
		g.Stopped = g.Stopped && s.Online(g.Host)
	}
	return s, nil
}

func value[T any](v *T) T {
	var zero T
	if v == nil {
		return zero
	}
	return *v
}

// SeenGuest is a listed machine as placement takes it.
func SeenGuest(r *pveapi.Resource) *placement.Guest {
	return &placement.Guest{
		VMID: r.VMID, Host: r.Node, Name: r.Name, Running: r.Status == "running", Stopped: r.Status == "stopped", Template: value(r.Template),
		Container: r.Type == "lxc", Lock: r.Lock, Pool: r.Pool, Tags: r.Tags,
		CPUs: int(value(r.MaxCPU)), Memory: pricing.Bytes(value(r.MaxMem)),
	}
}

func store(r *pveapi.Resource) placement.Store {
	return placement.Store{
		Name: r.Storage, Host: r.Node, Shared: value(r.Shared), Active: r.Status == "available",
		Total: pricing.Bytes(value(r.MaxDisk)), Used: pricing.Bytes(value(r.Disk)),
	}
}

// survey reads what hardly ever changes: the templates and the hosts' bridges. What cannot be read
// stays as it was known; a template of which nothing is known has that for its problem.
func (lo *lookout) survey(ctx context.Context, seen *placement.Sight, now time.Time) {
	lo.mu.Lock()
	due := now.Sub(lo.view.surveyed) >= surveyEvery
	templates, bridges := maps.Clone(lo.view.templates), maps.Clone(lo.view.bridges)
	lo.mu.Unlock()
	unread := map[string][]*placement.Guest{} // by host
	for _, id := range lo.templateIDs() {
		g := seen.Guests[id]
		known, was := templates[id]
		if g == nil || g.Container {
			templates[id] = placement.TemplateSeen{VMID: id, Problem: "is not listed: it does not exist, or the token may not see it"}
		} else if due || !was || known.Problem != "" || known.Host != g.Host {
			unread[g.Host] = append(unread[g.Host], g)
			if !was {
				templates[id] = placement.TemplateSeen{VMID: id, Problem: "cannot be read: host " + g.Host + " did not answer"}
			}
		}
	}
	lo.readTemplates(ctx, unread, templates)
	lo.readBridges(ctx, seen, due, bridges)
	lo.mu.Lock()
	defer lo.mu.Unlock()
	if due {
		lo.view.surveyed = now
	}
	lo.view.templates, lo.view.bridges = templates, bridges
	lo.records.listed = nil // machines may have drifted from their templates
	for i := range seen.Hosts {
		seen.Hosts[i].Bridges = bridges[seen.Hosts[i].Name]
	}
}

// readTemplates reads the templates of each host.
func (lo *lookout) readTemplates(ctx context.Context, unread map[string][]*placement.Guest, into map[int]placement.TemplateSeen) {
	var mu sync.Mutex
	lo.askHosts(ctx, slices.Sorted(maps.Keys(unread)), func(ctx context.Context, host string) error {
		var failed error
		for _, g := range unread[host] {
			t, err := lo.readTemplate(ctx, g)
			mu.Lock()
			switch {
			case err == nil:
				t.Digest = cmp.Or(t.Digest, into[g.VMID].Digest)
				into[g.VMID] = t
			case into[g.VMID].Host == "": // nothing was ever read of it
				into[g.VMID] = placement.TemplateSeen{VMID: g.VMID, Problem: fmt.Sprintf("cannot be read: %v", err)}
			}
			mu.Unlock()
			failed = cmp.Or(failed, err)
		}
		return failed
	})
}

// readBridges reads which bridges each host has.
func (lo *lookout) readBridges(ctx context.Context, seen *placement.Sight, due bool, into map[string][]string) {
	var hosts []string
	for _, h := range seen.Hosts {
		if _, known := into[h.Name]; h.Online && (due || !known) {
			hosts = append(hosts, h.Name)
		}
	}
	var mu sync.Mutex
	lo.askHosts(ctx, hosts, func(ctx context.Context, host string) error {
		list, err := lo.client.Networks(ctx, host)
		if err == nil {
			mu.Lock()
			into[host] = bridgeNames(list)
			mu.Unlock()
		}
		return err
	})
}

// bridgeNames are the bridges of a list. A token that may see none sees an empty one, which is no
// host's: that is unknown.
func bridgeNames(list []pveapi.Network) []string {
	var names []string
	for _, n := range list {
		names = append(names, n.Name)
	}
	return names
}

func (lo *lookout) templateIDs() []int {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	var ids []int
	for _, p := range lo.catalogue.pools {
		ids = append(ids, p.Template.IDs()...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (lo *lookout) readTemplate(ctx context.Context, g *placement.Guest) (placement.TemplateSeen, error) {
	c, err := lo.client.VM(g.Host, g.VMID).Config(ctx)
	if err != nil {
		return placement.TemplateSeen{}, err
	}
	t := placement.TemplateSeen{VMID: g.VMID, Host: g.Host, BootDisk: c.BootDisk(), Digest: c.Digest, Devices: devices(c.Raw, g.VMID)}
	if c.Lock != "" {
		t.Digest = "" // a backup writes its lock into what the digest is of, and changes nothing
	}
	if !c.Template {
		t.Problem = "is no template: qm template makes it one"
	}
	if t.BootDisk == "" {
		t.Problem = "has no disk to boot from"
		return t, nil
	}
	t.Size = pricing.Bytes(c.Disks[t.BootDisk].Size)
	parts := c.Parts()
	t.Stores, t.Discs = []string{c.Disks[t.BootDisk].Storage}, parts.Discs
	for _, s := range parts.Storages {
		if s != t.Stores[0] {
			t.Stores = append(t.Stores, s)
		}
	}
	return t, nil
}

// readTasks lists the tasks of the hosts that machines wait for, and of those that did not answer:
// one that does is not silent any more. What a host does not answer now it answers later.
func (lo *lookout) readTasks(ctx context.Context, seen *placement.Sight) {
	since, tasks := lo.tasksWanted(seen)
	starts := lo.starts()
	listed := map[string]bool{}
	var mu sync.Mutex
	lo.askHosts(ctx, slices.Sorted(maps.Keys(since)), func(ctx context.Context, host string) error {
		list, err := lo.client.Tasks(ctx, host, since[host].Add(-time.Second))
		if err != nil {
			return err
		}
		for i, t := range list {
			if starts[t.UPID] {
				list[i] = lo.explained(ctx, t)
			}
		}
		mu.Lock()
		defer mu.Unlock()
		listed[host] = true
		maps.DeleteFunc(tasks, func(upid pveapi.UPID, _ pveapi.TaskStatus) bool { return upid.Node() == host })
		for _, t := range list {
			tasks[t.UPID] = t
		}
		return nil
	})
	lo.mu.Lock()
	defer lo.mu.Unlock()
	lo.view.tasks, lo.view.tasksFrom = tasks, listed
	maps.Copy(lo.view.known, listed)
}

// starts are those that machines wait for.
func (lo *lookout) starts() map[pveapi.UPID]bool {
	lo.mu.Lock()
	defer lo.mu.Unlock()
	all := map[pveapi.UPID]bool{}
	for _, m := range lo.roster.machines {
		if m.Task != nil && m.Task.Kind == intents.TaskStart {
			all[pveapi.UPID(m.Task.UPID)] = true
		}
	}
	return all
}

// tasksWanted says of which hosts tasks are to be listed, since when, and what remains known of the
// hosts that do not answer.
func (lo *lookout) tasksWanted(seen *placement.Sight) (since map[string]time.Time, kept map[pveapi.UPID]pveapi.TaskStatus) {
	since, kept = map[string]time.Time{}, map[pveapi.UPID]pveapi.TaskStatus{}
	lo.mu.Lock()
	defer lo.records.unlock()
	for _, m := range lo.roster.machines {
		if m.Task == nil {
			continue
		}
		started := pveapi.UPID(m.Task.UPID).Started()
		if at, waits := since[m.Task.Host]; !waits || started.Before(at) {
			since[m.Task.Host] = started
		}
	}
	for upid, t := range lo.view.tasks { // clones that no intent is of are watched to their end
		if t.Running && upid.Type() == "qmclone" && seen.Host(upid.Node()) != nil {
			kept[upid] = t
			if at, waits := since[upid.Node()]; !waits || t.Started.Before(at) {
				since[upid.Node()] = t.Started
			}
		}
	}
	for host, at := range lo.view.silent {
		if silent := seen.At.Sub(at); silent > silentFor || silent < 0 || !seen.Online(host) {
			delete(lo.view.silent, host)
		} else if _, waits := since[host]; !waits {
			since[host] = seen.At
		}
	}
	for _, h := range seen.Hosts { // what was begun before the fleet was, without an intent
		if _, waits := since[h.Name]; !waits && !lo.view.known[h.Name] {
			since[h.Name] = lo.watch.began.Add(-time.Hour)
		}
	}
	maps.DeleteFunc(since, func(host string, _ time.Time) bool { return !seen.Online(host) })
	return since, kept
}

// readNodes lists the cluster's nodes, if there is a way to.
func (lo *lookout) readNodes(ctx context.Context) {
	if lo.cfg.Nodes == nil {
		return
	}
	list, err := lo.cfg.Nodes(ctx)
	lo.mu.Lock()
	defer lo.records.unlock()
	if err != nil {
		if lo.members.nodes != nil {
			lo.records.say(nil, reason(pvecode.NodesUnknown, "%v", err), "")
		}
		lo.members.nodes, lo.members.match.ids = nil, nil
		lo.members.matchNodes()
		return
	}
	nodes := make(map[string]Node, len(list))
	for _, n := range list {
		nodes[n.Name] = n
	}
	if lo.members.nodes == nil || !maps.Equal(lo.members.nodes, nodes) {
		lo.members.nodes, lo.members.match.ids = nodes, nil
	}
	lo.members.matchNodes()
}

// needed are the privileges on a resource pool whose loss makes what the fleet sees or does untrue.
// Without VM.Audit machines vanish from the list, without the others work stops half way.
var needed = []string{
	"VM.Audit", "VM.Allocate", "VM.PowerMgmt", "VM.Config.CPU", "VM.Config.Memory", "VM.Config.Network", "VM.Config.Options", "VM.Config.HWType",
}

// right is a privilege on a path.
type right struct{ path, privilege string }

// rights are those that the pools use. A token that may do less elsewhere works as before.
func (lo *lookout) rights() map[right]bool {
	all := map[right]bool{}
	add := func(path string, privileges ...string) {
		for _, p := range privileges {
			all[right{path, p}] = true
		}
	}
	for _, p := range lo.catalogue.pools {
		machines := "/pool/" + p.PVEPool
		add(machines, needed...)
		if len(p.Guest.Options) > 0 || slices.ContainsFunc(p.Shapes, func(s pricing.Shape) bool { return s.Disk > 0 }) {
			add(machines, "VM.Config.Disk")
		}
		if p.NeedsDisc() {
			add(machines, "VM.Config.CDROM", "VM.Config.Cloudinit")
		}
		if p.Storage != "" {
			add("/storage/"+p.Storage, "Datastore.AllocateSpace")
		}
		for _, id := range p.Template.IDs() {
			add("/vms/"+itoa(id), "VM.Clone") // listed for what is in a resource pool, too
		}
	}
	return all
}

// readRights looks whether the token still may what it could when the fleet began. Lists do not
// say that they have become shorter.
func (lo *lookout) readRights(ctx context.Context, now time.Time) error {
	lo.mu.Lock()
	every := rightsEvery
	if lo.view.frozen != nil || lo.view.hidden > 0 {
		every = doubtEvery
	}
	due := lo.view.asked.IsZero() || now.Sub(lo.view.asked) >= every
	lo.mu.Unlock()
	if !due {
		return nil
	}
	rights, err := lo.client.Access().Permissions(ctx)
	if err != nil {
		return err
	}
	lo.mu.Lock()
	defer lo.mu.Unlock()
	lo.view.asked = now
	if lo.view.rights == nil {
		lo.view.rights = rights
	}
	lo.view.lacks = lo.lost(rights)
	return nil
}

// lost names the privileges that were there and are not any more.
func (lo *lookout) lost(now pveapi.Permissions) []string {
	var lacks []string
	for r := range lo.rights() {
		if lo.view.rights.Has(r.path, r.privilege) && !now.Has(r.path, r.privilege) {
			lacks = append(lacks, r.privilege+" on "+r.path)
		}
	}
	slices.Sort(lacks)
	return lacks
}

// see takes what was read for what is.
func (v *view) see(s *placement.Sight) {
	if v.seen != nil && len(v.seen.Guests) > 0 || v.emptied {
		v.emptied = len(s.Guests) == 0
	}
	v.seen = s
}

// countClones counts the clones of our templates that run and that no intent knows of: if the
// intents were lost they may be ours, and are counted so that no pool grows beyond its limit.
func (lo *lookout) countClones() {
	lo.view.clones = map[string]int{}
	known := map[pveapi.UPID]bool{}
	asking := 0
	for _, m := range lo.roster.machines {
		if m.Task != nil {
			known[pveapi.UPID(m.Task.UPID)] = true
		} else if m.Step == intents.StepClaimed {
			asking++
		}
	}
	for upid, t := range lo.view.tasks {
		if !t.Running || upid.Type() != "qmclone" || known[upid] {
			continue
		}
		for name, p := range lo.catalogue.pools {
			if slices.ContainsFunc(p.Template.IDs(), func(id int) bool { return itoa(id) == upid.ID() }) {
				lo.view.clones[name]++
			}
		}
	}
	for name := range lo.view.clones {
		lo.view.clones[name] = max(0, lo.view.clones[name]-asking)
	}
}

// freeze decides whether anything may be changed now, and reports when that changes.
func (lo *lookout) freeze() {
	was := lo.view.frozen
	lo.view.frozen = lo.reasonToFreeze()
	switch is := lo.view.frozen; {
	case is != nil && (was == nil || was.Code != is.Code):
		advice := ""
		if e, ok := errors.AsType[*pveapi.Error](lo.view.failed); ok {
			advice = e.Advice()
		}
		if is.Code == pvecode.PermissionsShrunk {
			advice = "grant it to the token again, and to its user: plimsoll doctor prints the commands"
		}
		lo.records.say(nil, *is, advice)
	case is == nil && was != nil:
		lo.records.say(nil, reason(pvecode.Thawed, "was %s: %s", was.Code, was.Text), "")
	}
}

func (lo *lookout) reasonToFreeze() *nodescaler.Reason {
	v := lo.view
	switch {
	case v.failed != nil:
		return no(pvecode.LookFailed, "%v", v.failed)
	case v.seen == nil:
		return no(pvecode.LookFailed, "the cluster has not been seen yet")
	case !v.seen.Quorate:
		return no(pvecode.NoQuorum, "the hosts that answer are no majority; what they show may be out of date")
	case len(v.lacks) > 0:
		return no(pvecode.PermissionsShrunk, "the token has lost %s", strings.Join(v.lacks, ", "))
	case v.hidden > 0:
		return no(pvecode.PermissionsShrunk, "%d machines exist and are not listed: the token lacks VM.Audit on %s", v.hidden, strings.Join(lo.vmPaths(), ", "))
	case v.emptied:
		return no(pvecode.InventoryEmpty, "no virtual machine is listed any more, the templates neither")
	}
	return nil
}

// vmPaths are the paths that machines are seen through, those of resource pools of former
// configurations too.
func (lo *lookout) vmPaths() []string {
	var paths []string
	for _, p := range lo.catalogue.pools {
		paths = append(paths, "/pool/"+p.PVEPool)
	}
	for _, m := range lo.roster.machines {
		if m.hidden && m.PVEPool != "" {
			paths = append(paths, "/pool/"+m.PVEPool)
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// A host that is offline is a member of its cluster and is listed as one; one that left, by pvecm
// delnode, is not. What it had is gone once its VMIDs are free, and it is not there any more to
// answer how its tasks ended.

const (
	// leftAfter is how long a host must be missing to have left, and leftLooks in how many looks: a
	// host that is reinstalled under its name is back before, and one look may show what is not so.
	// A node that lost its machine has stopped being ready long before.
	leftAfter = 15 * time.Minute
	leftLooks = 20
)

// absence is since when a host is missing from the cluster, for how long it was seen to be, and in
// how many looks.
type absence struct {
	since time.Time
	lasts time.Duration
	looks int
}

// missHosts notes which hosts that machines are or were on are none of the cluster's. It counts
// from the start whenever a look shows something else, or does not show all hosts by word of a
// majority.
func (lo *lookout) missHosts() {
	was, s := lo.view.missing, lo.view.seen
	lo.view.missing = map[string]absence{}
	if !s.Quorate || !s.Whole {
		return
	}
	for _, m := range lo.roster.machines {
		for _, host := range m.hosts() {
			if s.Host(host) != nil {
				continue
			}
			a := was[host]
			if a.looks == 0 {
				a.since = s.At
			}
			a.looks++
			a.lasts = lo.watch.since(a.since)
			lo.view.missing[host] = a
		}
	}
}

// left reports whether a host has left the cluster for good.
func (v *view) left(host string) bool {
	a := v.missing[host]
	return a.looks >= leftLooks && a.lasts >= leftAfter
}

// guest is the one with a VMID, as it was last seen; nil without one.
func (v *view) guest(id int) *placement.Guest {
	if v.seen == nil {
		return nil
	}
	return v.seen.Guests[id]
}

// weight is what the machine with a VMID counts for its cluster. What is not known to be stopped
// may run, as on a host that is offline: its cluster is not to lose a pool by that.
func (v *view) weight(vmid int, created time.Time) entry {
	g := v.guest(vmid)
	return entry{vmid: vmid, created: created, runs: g != nil && !g.Stopped}
}

// nameless reports whether the name of a guest is not known because its host is offline or reports
// nothing, and not because it is being made.
func (v *view) nameless(g *placement.Guest) bool {
	return g.Unnamed() && (!v.seen.Online(g.Host) || !g.Running && !g.Stopped && g.Lock == "")
}

func (lo *lookout) unread() map[string]nodescaler.Reason {
	unread := map[string]nodescaler.Reason{}
	for name, p := range lo.catalogue.pools {
		for _, id := range p.Template.IDs() {
			if _, read := lo.view.templates[id]; !read {
				unread[name] = reason(placement.CodeTemplateUnread, "template %d has not been looked for yet", id)
			}
		}
	}
	return unread
}

// bars counts what is in the way of orders.
func (lo *lookout) bars() int {
	n := len(lo.unread())
	if lo.view.seen == nil {
		n++
	}
	if lo.view.frozen != nil {
		n++
	}
	return n
}

// unbar signals that orders can be taken now.
func (lo *lookout) unbar() {
	was := lo.view.barred
	if lo.view.barred = lo.bars(); lo.view.barred < was {
		ring(lo.news)
	}
}

// firstFree is the first of the pool's VMIDs that is neither listed nor used, from one place in the
// range on and around; 0 without one.
func (v *view) firstFree(p *settings.Pool, from int, used func(id int) bool) int {
	return p.VMIDs.Free(from, func(id int) bool {
		_, listed := v.seen.Guests[id]
		return listed || used(id)
	})
}

// maxAge is how old what was seen may be for List and Create to go by it.
const maxAge = 2 * time.Minute

// stopped reports whether a machine that should run does not. The list is some seconds late.
func (v *view) stopped(m *tracked) bool {
	g := v.seen.Guests[m.VMID]
	late := v.seen.At.Sub(m.Since) > 2*idleGap
	return g != nil && g.Stopped && g.Name == m.Name && late && m.Returned.IsZero() && m.Stashed.IsZero() && !m.Step.Before(intents.StepStarted)
}

// A host may be online, as the others see it, and answer nothing that is asked of itself, with a
// storage that hangs for one. The server says so after half a minute. It must not keep the others
// from being seen: what is read of hosts is read of all at once, and not waited for for long.

const (
	// hostPatience is how long a look waits for a host. One that works answers in a fraction of a
	// second.
	hostPatience = 5 * time.Second
	// hostRest is how long a host that did not answer is not asked again in a look.
	hostRest = time.Minute
	// silentFor is how long at most nothing is done to the machines of a host that did not answer.
	// Looks end it sooner: but a host may be too slow for them, and not for a move.
	silentFor = 10 * time.Minute
)

// askHosts asks something of each host, of all at the same time, and passes over those that did not
// answer a short while ago. What is not answered now is asked again later.
func (lo *lookout) askHosts(ctx context.Context, hosts []string, ask func(ctx context.Context, host string) error) {
	lo.mu.Lock()
	now := lo.cfg.Now()
	hosts = slices.DeleteFunc(hosts, func(host string) bool {
		left := lo.view.resting[host].Sub(now)
		return left > 0 && left <= hostRest // more is left only when the clock was set back
	})
	lo.mu.Unlock()
	if lo.cfg.Parallel == 1 {
		for _, host := range hosts {
			lo.askHost(ctx, host, ask)
		}
		return
	}
	var asking sync.WaitGroup
	for _, host := range hosts {
		asking.Go(func() { lo.askHost(ctx, host, ask) })
	}
	asking.Wait()
}

func (lo *lookout) askHost(ctx context.Context, host string, ask func(ctx context.Context, host string) error) {
	began := lo.cfg.Now()
	limited, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	err := ask(limited, host)
	now := lo.cfg.Now()
	lo.mu.Lock()
	defer lo.records.unlock()
	if err != nil && (limited.Err() != nil || now.Sub(began) >= hostPatience) {
		lo.view.resting[host] = now.Add(hostRest)
		return
	}
	delete(lo.view.resting, host)
	delete(lo.view.silent, host)
}

// original is the template for machines on a host as it is now; empty if it has not been read.
func (v *view) original(p *settings.Pool, host string) string {
	t, known := v.templates[p.Template.On(host)]
	if !known || t.Digest == "" {
		return ""
	}
	return itoa(t.VMID) + "@" + t.Digest
}
