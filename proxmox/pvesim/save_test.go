package pvesim

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

func (l *lab) save() string {
	l.Helper()
	var b bytes.Buffer
	if err := l.Cluster.Save(&b); err != nil {
		l.Fatal(err)
	}
	return b.String()
}

func (l *lab) load(text string) *lab {
	l.Helper()
	c, err := Load(strings.NewReader(text), world.Config{})
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(c.Close)
	return &lab{TB: l.TB, Cluster: c, root: l.root, entry: l.entry}
}

// busyDay are calls and faults of which some sense comes in any order.
var busyDay = []string{
	"POST /nodes/pve1/qemu/9000/clone newid=400 name=n400 pool=workers", "POST /nodes/pve1/qemu/9000/clone newid=401 target=pve2",
	"POST /nodes/pve1/qemu/9000/clone newid=402 full=1 storage=local", "POST /nodes/pve1/qemu/400/status/start",
	"POST /nodes/pve2/qemu/401/status/start", "POST /nodes/pve1/qemu/400/status/shutdown", "DELETE /nodes/pve1/qemu/402",
	"PUT /nodes/pve1/qemu/201/config cores=2 memory=1024", "PUT /nodes/pve1/qemu/400/config tags=a;b description=x ide2=shared:cloudinit ciuser=me",
	"POST /nodes/pve1/qemu/400/snapshot snapname=s1", "POST /nodes/pve1/qemu/201/status/suspend", "POST /nodes/pve1/qemu/201/status/resume",
	"POST /access/users userid=auto@pve password=secret12", "POST /access/users/auto@pve/token/t2 comment=x",
	"POST /access/roles roleid=Up privs=VM.Audit,VM.Clone", "PUT /access/acl path=/vms roles=Up users=auto@pve",
	"POST /access/groups groupid=g1 comment=y", "POST /pools poolid=more comment=z", "PUT /cluster/options tag-style=ordering=config next-id=lower=500",
	"POST /cluster/ha/resources sid=vm:301 comment=w", "POST /nodes/pve3/qemu/301/status/stop", "POST /storage storage=new type=dir path=/x nodes=pve1,pve2",
	"POST /nodes/pve1/storage/local/content filename=vm-201-disk-9.qcow2 size=1M vmid=201", "POST /nodes/pve2/status command=reboot",
	"PUT /nodes/pve1/time timezone=Europe/Vienna",
	"! fail clone p=0.5", "! slow start p50=10s p99=1m", "! host pve3 down for=2m every=10m", "! cut pve2 for=3m", "! no quorum after=1m for=1m",
	"! lock vm=201 as=backup for=4m", "! full storage local for=3m", "! freeze resources for=6m", "! revoke VM.Audit from=auto@pve for=5m",
	"! fail boot p=0.3",
}

// live does something that happens on a busy day, and lets some time pass.
func (l *lab) live(what string, pause time.Duration) {
	if fault, is := strings.CutPrefix(what, "! "); is {
		l.inject(fault)
	} else {
		l.tell(what)
	}
	l.Advance(pause)
}

// What is loaded is what was saved: saved again it is the same text, and it goes on as the other
// does, but for what was under way.
func TestWhatIsLoadedIsWhatWasSaved(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		l := newLab(t, nil)
		defer l.Close()
		for range rapid.IntRange(0, 12).Draw(r, "steps") {
			l.live(rapid.SampledFrom(busyDay).Draw(r, "what"), time.Duration(rapid.IntRange(0, 90).Draw(r, "pause"))*time.Second)
		}
		first := l.save()
		back := l.load(first)
		defer back.Close()
		if diff := cmp.Diff(first, back.save()); diff != "" {
			r.Fatalf("saved again it differs: %s", diff)
		}
		if l.underWay() {
			return
		}
		for i, l := range []*lab{l, back} {
			l.live("POST /nodes/pve1/qemu/9000/clone newid=600", 30*time.Second)
			l.live("POST /nodes/pve1/qemu/600/status/start", 5*time.Minute)
			l.live("GET /cluster/resources", time.Duration(i))
		}
		if diff := cmp.Diff(l.goesOn(), back.goesOn()); diff != "" {
			r.Fatalf("later it differs: %s", diff)
		}
	})
}

// underWay reports whether there are tasks or guests that a saved cluster does not go on with.
func (l *lab) underWay() bool {
	is := false
	l.With(func() {
		for _, h := range l.Nodes {
			is = is || slices.ContainsFunc(h.Tasks, (*world.Task).Running)
		}
		for _, m := range l.VMs {
			is = is || m.Guest != nil && m.Awake
		}
		for _, s := range l.HA.Services {
			is = is || s.State == "migrate" || s.State == "started" && !l.VMs[301].Running()
		}
	})
	return is
}

// goesOn is what a cluster has come to, without what only looks at the time.
func (l *lab) goesOn() string {
	var b strings.Builder
	l.With(func() {
		for _, id := range world.Sorted(l.VMs) {
			m := l.VMs[id]
			fmt.Fprintln(&b, id, m.Host.Name, m.State, m.Awake, m.Agent, m.Boots, m.Conf["lock"], m.Conf["tags"], len(m.Snaps))
		}
		for _, h := range l.Nodes {
			fmt.Fprintln(&b, h.Name, h.Up, l.Quorate(h), len(h.Tasks), len(h.Heard))
			for _, t := range h.Tasks {
				fmt.Fprintln(&b, t.UPID, t.Exit)
			}
		}
	})
	return b.String()
}

func TestTasksThatRunAreSavedAsEndedUnexpectedly(t *testing.T) {
	l := newLab(t, nil)
	upid := l.must(clone + "400").(string)
	l.Advance(time.Second)
	back := l.load(l.save())
	if got := back.endOf(upid); got != "unexpected status" {
		t.Errorf("it ended with %s", got)
	}
	if lock := back.conf(400, "lock"); lock != "clone" {
		t.Errorf("what it had begun is locked by %q", lock)
	}
	if got := l.endOf(upid); got != "OK" {
		t.Errorf("in the cluster that was saved it ended with %s", got)
	}
}

func TestAGuestBootsOnWhereItWas(t *testing.T) {
	l := newLab(t, nil)
	l.ended(clone + "400")
	l.ended("POST /nodes/pve1/qemu/400/status/start")
	l.Advance(10 * time.Second)
	back := l.load(l.save())
	booted := time.Time{}
	back.OnBoot(func(b world.Boot) { booted = b.At })
	before := back.Now()
	back.Advance(time.Minute)
	if took := booted.Sub(before); took < 8*time.Second || took > 12*time.Second {
		t.Errorf("it has booted %s later, want the half that was left of 20 s", took)
	}
}

func TestSavedClustersAreReadStrictly(t *testing.T) {
	l := newLab(t, nil)
	text := l.save()
	for change, want := range map[string]string{
		`"format": "plimsoll/pvesim/1"|"format": "plimsoll/pvesim/0"`: `saved cluster: format: must be plimsoll/pvesim/1, was "plimsoll/pvesim/0"`,
		`"format": |"farmat": `:         `saved cluster: json: unknown field "farmat"`,
		`"host": "pve3"|"host": "pve9"`: `saved cluster: config: vms[2].host: must be one of [pve1 pve2 pve3], was pve9` + "\n",
		`"faults": []|"faults": [{"line": "fail clnoe", "number": 1, "put": "2026-01-01T00:00:00Z", "on": true, "acts": false, "seen": 0, "struck": 0}]`: `saved cluster: faults: must be one fault, was "fail clnoe": line 1: task: must be one of`,
		`"Speed": 0|"speed": 0`: ``,
	} {
		from, to, _ := strings.Cut(change, "|")
		_, err := Load(strings.NewReader(strings.ReplaceAll(text, from, to)), world.Config{})
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", change, err)
		case want != "" && (err == nil || !strings.HasPrefix(err.Error()+"\n", want)):
			t.Errorf("%s: %v, want %s", change, err, want)
		}
	}
	if _, err := Load(strings.NewReader(text[:len(text)/2]), world.Config{}); err == nil {
		t.Error("half a file is loaded")
	}
}

// notSaved are the fields that are not saved, and why. A field that is added must be saved, or are
// here.
var notSaved = map[string]string{
	"machines.onBoot": "set anew", "machines.onHalt": "set anew", "machines.startVM": "set anew", "front.onCall": "set anew", "front.made": "of calls that are over", "engine.mu": "of this process",
	"engine.speed": "given anew", "engine.born": "of this process", "engine.procs": "started again by resume", "engine.idle": "of this process", "engine.wall": "of this process",
	"engine.kick": "of this process", "engine.over": "of this process", "wiring.changes": "of this process", "wiring.parted": "follows from the faults",
	"node.certificate": "of this process", "node.serving": "calls are lost", "node.workers": "calls are lost", "node.files": "who held a lock is gone",

	"store.locks": "who held a lock is gone", "store.filled": "follows from the faults", "fault.loaded": "set anew", "fault.undo": "follows from the faults",
	"fault.injected": "saved field by field", "injected.seed": "follows from the configuration", "injected.path": "follows from the line", "world.afoot": "saved as faults", "hA.round": "set anew", "hA.world": "the cluster", "wiring.c": "the cluster", "machines.c": "the cluster", "stores.c": "the cluster",
	"front.c": "the cluster", "guest.config": "saved field by field",
	"fault.p": "started again by resume", "service.goal": "as it stands", "access.known": "follows from the release", "access.pools": "saved beside",
	"access.lost":    "follows from the faults",
	"machines.disks": "ends with the process", "guest.outside": "ends with the process", "volume.disk": "ends with the process",
}

func TestEveryFieldIsSavedOrSaidNotToBe(t *testing.T) {
	saved := map[string]string{ // how fields that are called otherwise there are called
		"world.nodes": "Hosts", "engine.clock": "Now", "machines.vMs": "Guests", "wiring.moving": "Until", "node.known": "Known", "guest.guest": "BootsUntil", "config.snaps": "Snapshots",
		"guest.fw": "Firewall", "hA.process": "Awake", "user.about": "About", "pool.vms": "Guests", "injected.fault": "Line", "injected.since": "Put", "set.all": "Faults", "set.put": "Injected", "set.seed": "Config",
		"access.acl": "ACL", "store.storage": "Storage", "node.host": "Host",
	}
	for _, pair := range [][2]any{
		{world.World{}, savedCluster{}}, {engine.Engine{}, savedCluster{}}, {world.Wiring{}, savedCluster{}}, {world.Machines{}, savedCluster{}}, {world.Stores{}, savedCluster{}}, {front{}, savedCluster{}}, {world.Node{}, savedHost{}}, {world.Guest{}, savedGuest{}}, {vmconf.Config{}, savedGuest{}},
		{world.Store{}, savedStorage{}}, {access.Pool{}, savedPool{}},
		{access.Access{}, access.Saved{}}, {access.User{}, access.SavedUser{}}, {access.Token{}, access.SavedToken{}}, {world.HA{}, savedHA{}}, {world.Service{}, savedService{}}, {world.Fault{}, savedFault{}}, {faults.Injected{}, savedFault{}}, {faults.Set{}, savedCluster{}},
	} {
		of, in := reflect.TypeOf(pair[0]), reflect.TypeOf(pair[1])
		for i := range of.NumField() {
			name := uncapitalised(of.Name()) + "." + uncapitalised(of.Field(i).Name)
			if notSaved[name] != "" || of == reflect.TypeFor[world.World]() && of.Field(i).Anonymous {
				continue
			}
			to := saved[name]
			_, found := in.FieldByNameFunc(func(s string) bool { return s == to || to == "" && strings.EqualFold(s, of.Field(i).Name) })
			if !found {
				t.Errorf("%s: is neither saved nor said not to be", name)
			}
		}
	}
}

func uncapitalised(name string) string { return strings.ToLower(name[:1]) + name[1:] }
