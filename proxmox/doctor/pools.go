package doctor

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// poolsExam looks at the pools and at their machines.
type poolsExam struct {
	*examination
	fleet *pve.Fleet // that has looked what is left over
	left  pve.Report
	blind error // why it could not
}

// examinePools looks whether the resource pools are there, and whether the VMIDs suffice.
func (e *poolsExam) examinePools() {
	var seen []string
	for i := range e.site.Pools {
		p := &e.site.Pools[i]
		if !slices.Contains(seen, p.PVEPool) {
			seen = append(seen, p.PVEPool)
			e.examineResourcePool(p)
		}
		e.examineHosts(i, p)
		e.examineVMIDs(i, p)
	}
}

// examineHosts says which hosts can carry a pool's machines, after all that was seen.
func (e *poolsExam) examineHosts(i int, p *settings.Pool) {
	able := slices.DeleteFunc(e.examineShapes(i, p), func(h string) bool {
		return slices.Contains(e.blocked[p.Name], h) || slices.Contains(p.Placement.Maintenance, h)
	})
	if len(able) == 0 && e.unsure[p.Name] {
		e.skip("pools.hosts", p.Name, "not looked at: which hosts machines of pool %s can be cloned to is not known", p.Name)
		return
	}
	if len(able) == 0 {
		e.add(Fail, "pools.hosts", p.Name, []string{fmt.Sprintf("correct what the lines above say of its hosts, or %s.placement", e.site.KeyOf(i))}, "no host can carry machines of pool %s", p.Name)
		return
	}
	e.ok("pools.hosts", p.Name, "machines of pool %s can be put on %s", p.Name, strings.Join(able, ", "))
}

func (e *poolsExam) examineResourcePool(p *settings.Pool) {
	if path := "/pool/" + p.PVEPool; !e.have.Has(path, "Pool.Audit") {
		e.skip("pools.there", p.PVEPool, "not looked at: it takes Pool.Audit on %s", path)
		return
	}
	_, err := e.client.Pool(e.ctx, p.PVEPool)
	switch {
	case pveapi.Is(err, pveapi.NoPool):
		e.add(Fail, "pools.there", p.PVEPool, []string{setupPool(p.PVEPool)}, "there is no resource pool %s, which pool %s puts its machines into", p.PVEPool, p.Name)
	case err != nil:
		e.failed("pools.there", p.PVEPool, err)
	default:
		e.ok("pools.there", p.PVEPool, "the resource pool %s is there", p.PVEPool)
	}
}

// examineVMIDs looks for strangers in a pool's range, and whether what is left suffices.
func (e *poolsExam) examineVMIDs(i int, p *settings.Pool) {
	subject, key := fmt.Sprintf("%s of pool %s", p.VMIDs, p.Name), e.site.KeyOf(i)+".vmids"
	if !e.seesMachines(p) { // nothing would distinguish ours from others' machines
		e.skip("pools.strangers", subject, "not looked at: it takes VM.Audit on /pool/%s", p.PVEPool)
		return
	}
	left, err := e.leftovers()
	if err != nil {
		e.failed("pools.strangers", subject, err)
		return
	}
	var strangers []string
	for _, id := range slices.Sorted(maps.Keys(e.strangers(left.Orphans))) {
		if p.VMIDs.Holds(id) {
			strangers = append(strangers, strconv.Itoa(id))
		}
	}
	if len(strangers) > 0 {
		e.add(Warn, "pools.strangers", subject, []string{key + ": a range without other VMs"},
			"machines that are not ours have the VMIDs %s: these are not used, and they are not touched", strings.Join(strangers, ", "))
	} else {
		e.ok("pools.strangers", subject, "no other VM is known to use the VMIDs %s", p.VMIDs)
	}
	e.examineSpare(subject, key, p, p.VMIDs.Len()-len(strangers))
}

// seesMachines reports whether the machines of a pool are shown to the token.
func (e *poolsExam) seesMachines(p *settings.Pool) bool {
	return e.have.Has("/pool/"+p.PVEPool, "VM.Audit")
}

// strangers are the VMIDs of others: those that are seen, and those that are taken and not seen.
func (e *poolsExam) strangers(left []pve.Orphan) map[int]bool {
	all := map[int]bool{}
	for _, r := range e.resources {
		mine := slices.ContainsFunc(e.site.Pools, func(p settings.Pool) bool { return e.ours(&p, r) })
		if r.VMID != 0 && !mine {
			all[r.VMID] = true
		}
	}
	for _, o := range left {
		if o.Kind == pve.UnseenMachine {
			all[o.VMID] = true
		}
	}
	for _, id := range e.making {
		delete(all, id)
	}
	return all
}

// examineSpare looks whether there are VMIDs for as many machines as may be, and for those that
// rest after their machines are gone.
func (e *poolsExam) examineSpare(subject, key string, p *settings.Pool, left int) {
	rest := left - p.Max
	switch {
	case rest < 0:
		e.add(Fail, "pools.vmids", subject, []string{fmt.Sprintf("%s: {first: %d, last: %d}", key, p.VMIDs.First, p.VMIDs.First+2*p.Max-1)}, "%d VMIDs are too few for max, %d machines", left, p.Max)
	case rest < p.Max && p.Cooldown > 0:
		e.add(Warn, "pools.vmids", subject, []string{fmt.Sprintf("%s: {first: %d, last: %d}", key, p.VMIDs.First, p.VMIDs.First+2*p.Max-1)},
			"%d VMIDs are enough for %d machines and %d that rest for %s after theirs is gone: when more are replaced in that time, orders wait", left, p.Max, rest, pricing.Short(time.Duration(p.Cooldown)))
	default:
		e.ok("pools.vmids", subject, "%d VMIDs are enough for max, %d machines", left, p.Max)
	}
}

// ours reports whether a machine that is seen carries our mark. Whether all proofs are there is
// another question, for those who would delete it.
func (e *poolsExam) ours(p *settings.Pool, r pveapi.Resource) bool {
	return r.Pool == p.PVEPool && (slices.Contains(r.Tags, settings.OwnerTag(e.site.Owner)) || r.Lock == "clone" || r.Lock == "create")
}

// leftovers is what a fleet finds left over, one that is new and sees what one would see that has
// lost its memory. It is asked once.
func (e *poolsExam) leftovers() (pve.Report, error) {
	if e.fleet != nil || e.blind != nil {
		return e.left, e.blind
	}
	e.fleet, e.blind = pve.NewFleet(pve.FleetConfig{
		Client: e.client, Owner: e.site.Owner, AnyCluster: true, Watch: true, Pools: e.site.Pools, Intents: &intents.Memory{},
		Now: e.now, Rand: rand.New(rand.NewPCG(0, 0)), Parallel: 1, HA: e.site.HA, OrphanGrace: e.site.OrphanGrace,
	})
	if e.blind == nil {
		e.left, e.blind = e.fleet.Orphans(e.ctx)
	}
	return e.left, e.blind
}

// examineMachines says how many machines are proved to be ours, and of what needs a person.
func (e *poolsExam) examineMachines() {
	left, err := e.leftovers()
	if err != nil {
		e.failed("machines.found", "", err)
		return
	}
	e.examineFound(e.fleet)
	for _, o := range left.Orphans {
		if e.locked(o.VMID) || o.Kind == pve.UnseenMachine {
			continue // it may be in the making; of VMIDs that are taken the pools report
		}
		e.add(Warn, "machines."+orphanIDs[o.Kind], o.Name, orphanFixes(o), "%s is left over: %s", o.Name, o.Text)
	}
	for _, what := range left.Unknown {
		if what != "nodes" { // Kubernetes is not asked
			e.skip("machines.unknown", what, "not looked at: %s", what)
		}
	}
	e.examineLocks()
}

// examineFound counts the machines of each pool.
func (e *poolsExam) examineFound(fleet *pve.Fleet) {
	state, err := fleet.List(e.ctx)
	if err != nil {
		e.failed("machines.found", "", err)
		return
	}
	count := map[string]int{}
	for _, m := range state.Machines {
		count[m.Pool]++
	}
	for i := range e.site.Pools {
		p := &e.site.Pools[i]
		if !e.seesMachines(p) {
			e.skip("machines.found", "pool "+p.Name, "not looked at: it takes VM.Audit on /pool/%s", p.PVEPool)
			continue
		}
		e.examineOwners(i, fleet)
		e.ok("machines.found", "pool "+p.Name, "%d machines of pool %s are proved to be ours", count[p.Name], p.Name)
	}
}

// orphanIDs are the checks that report orphans.
var orphanIDs = map[pve.OrphanKind]string{
	pve.MachineWithoutNode: "withoutNode", pve.NodeWithoutMachine: "withoutMachine", pve.DiscWithoutMachine: "disc",
	pve.IntentWithout: "intent", pve.UnprovedMachine: "unproved",
}

// orphanFixes are what a person can do about what is left over.
func orphanFixes(o pve.Orphan) []string {
	on := ""
	if o.Host != "" {
		on = " (on " + o.Host + ")"
	}
	switch o.Kind {
	case pve.DiscWithoutMachine:
		return []string{"pvesm free " + pveapi.Shell(o.Name) + on + ", for it holds a join token"}
	case pve.UnprovedMachine:
		id := strconv.Itoa(o.VMID)
		return []string{"qm config " + id + on, "qm destroy " + id + " --purge" + on + ", if it is not needed"}
	case pve.MachineWithoutNode, pve.NodeWithoutMachine, pve.IntentWithout, pve.UnseenMachine:
	}
	return nil
}

// locked reports whether a machine is locked.
func (v *inventory) locked(id int) bool {
	return slices.ContainsFunc(v.resources, func(r pveapi.Resource) bool { return id != 0 && r.VMID == id && r.Lock != "" })
}

// examineLocks reports locked machines in our ranges. A clone that was killed keeps its lock, and
// then the machine can be neither used nor deleted.
func (e *poolsExam) examineLocks() {
	for _, r := range e.resources {
		mine := slices.ContainsFunc(e.site.Pools, func(p settings.Pool) bool { return p.VMIDs.Holds(r.VMID) })
		if r.Type == "qemu" && mine && r.Lock != "" {
			id := strconv.Itoa(r.VMID)
			e.add(Warn, "machines.locked", id, []string{"qm unlock " + id + " (on " + r.Node + "), if no task works on it any more"}, "VM %s on %s is locked (%s)", id, r.Node, r.Lock)
		}
	}
}
