package pvesim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// state is what a virtual machine's state is, even if lists say otherwise.
func (l *lab) state(id int) string {
	state := "none"
	l.With(func() {
		if m := l.VMs[id]; m != nil {
			state = m.State
		}
	})
	return state
}

func (l *lab) conf(id int, key string) (value string) {
	l.With(func() {
		if m := l.VMs[id]; m != nil {
			value = m.Conf[key]
		}
	})
	return value
}

const clone = "POST /nodes/pve1/qemu/9000/clone newid="

func TestFaultsOfTasks(t *testing.T) {
	for fault, try := range map[string]func(t *testing.T, l *lab){
		"fail clone nth=2": func(t *testing.T, l *lab) {
			var got []string
			for id := range 3 {
				got = append(got, l.ended(fmt.Sprint(clone, 400+id)))
			}
			want := []string{"OK", "clone failed: unable to create image: qemu-img: exit code 1", "OK"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if l.state(401) != "none" || l.find("GET /nodes/pve1/storage/shared/content?vmid=401", "shared:401/vm-401-disk-0.qcow2") != nil {
				t.Error("what failed is still there")
			}
		},
		`fail start text="start failed: no %s today" vm=9001`: func(t *testing.T, l *lab) {
			l.ended(clone + "9001")
			if got := l.ended("POST /nodes/pve1/qemu/9001/status/start"); got != "start failed: no 9001 today" || l.state(9001) != "stopped" {
				t.Errorf("got %s, and the machine is %s", got, l.state(9001))
			}
		},
		"kill task clone times=1": func(t *testing.T, l *lab) {
			if got := l.ended(clone + "400"); got != "unexpected status" || l.conf(400, "lock") != "clone" {
				t.Errorf("got %s, and what is left is locked by %q", got, l.conf(400, "lock"))
			}
			if got := l.ended("DELETE /nodes/pve1/qemu/400"); got != "VM is locked (clone)" {
				t.Errorf("destroying what is left ended with %s", got)
			}
			if got := l.ended(clone + "401"); got != "OK" {
				t.Errorf("the next one ended with %s", got)
			}
		},
		"warn clone": func(t *testing.T, l *lab) {
			if got := l.ended(clone + "400"); got != "WARNINGS: 1" || l.state(400) != "stopped" {
				t.Errorf("got %s, and the machine is %s", got, l.state(400))
			}
		},
		"slow stop by=50s": func(t *testing.T, l *lab) {
			began := l.Now()
			l.ended("POST /nodes/pve1/qemu/201/status/stop")
			if took := l.Now().Sub(began); took < 50*time.Second || took > 53*time.Second {
				t.Errorf("it took %s", took)
			}
		},
		"fail destroy on=pve3": func(t *testing.T, l *lab) {
			l.ended(clone + "400")
			if got := l.ended("DELETE /nodes/pve1/qemu/400"); got != "OK" {
				t.Errorf("on another host it ended with %s", got)
			}
			l.ended("POST /nodes/pve3/qemu/301/status/stop")
			if got := l.ended("DELETE /nodes/pve3/qemu/301"); got != "can't lock file '/var/lock/qemu-server/lock-301.conf' - got timeout" {
				t.Errorf("on that host it ended with %s", got)
			}
		},
		"steal id nth=2": func(t *testing.T, l *lab) {
			if got := l.ended(clone + "400"); got != "OK" {
				t.Fatal(got)
			}
			s := l.tell(clone + "401")
			if got := s.status; got != "500 unable to create VM 401: config file already exists" {
				t.Errorf("got %s %v", got, s.data)
			}
			if name := l.conf(401, "name"); name != "foreign-401" {
				t.Errorf("the identifier belongs to %q", name)
			}
		},
		"steal id to=pve2": func(t *testing.T, l *lab) {
			if got := l.ended(clone + "400"); got != "close (rename) atomic file '/etc/pve/nodes/pve1/qemu-server/400.conf' failed: File exists" {
				t.Errorf("got %s", got)
			}
			if name := l.conf(400, "name"); name != "foreign-400" {
				t.Errorf("the identifier belongs to %q", name)
			}
		},
		"fail boot vm=9000 for=1h\nfail boot nth=1": func(t *testing.T, l *lab) {
			l.ended(clone + "400")
			l.ended("POST /nodes/pve1/qemu/400/status/start")
			l.Advance(10 * time.Minute)
			if s := l.tell("GET /nodes/pve1/qemu/400/agent/get-osinfo"); s.status != "500 QEMU guest agent is not running" {
				t.Errorf("the agent says %s", s.status)
			}
		},
		"slow boot by=1m": func(t *testing.T, l *lab) {
			l.ended(clone + "400")
			l.ended("POST /nodes/pve1/qemu/400/status/start")
			l.Advance(70 * time.Second)
			if s := l.tell("GET /nodes/pve1/qemu/400/agent/get-osinfo"); s.status != "500 QEMU guest agent is not running" {
				t.Errorf("after 70 s the agent says %s", s.status)
			}
			l.Advance(10 * time.Second)
			if s := l.tell("GET /nodes/pve1/qemu/400/agent/get-osinfo"); s.status != "200 OK" {
				t.Errorf("after 80 s the agent says %s", s.status)
			}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			l := newLab(t, nil)
			l.inject(fault)
			try(t, l)
		})
	}
}

func TestFaultsOfCalls(t *testing.T) {
	for fault, try := range map[string]func(t *testing.T, l *lab){
		"lose answer POST …/clone nth=1": func(t *testing.T, l *lab) {
			if s := l.tell(clone + "400"); !strings.Contains(s.status, "connection reset") {
				t.Errorf("got %s", s.status)
			}
			l.Advance(time.Minute)
			if l.state(400) != "stopped" {
				t.Errorf("the clone is %s", l.state(400))
			}
			if s := l.tell(clone + "401"); s.status != "200 OK" {
				t.Errorf("the next one: %s", s.status)
			}
		},
		"drop POST …/clone": func(t *testing.T, l *lab) {
			if s := l.tell(clone + "400"); !strings.Contains(s.status, "connection reset") {
				t.Errorf("got %s", s.status)
			}
			l.Advance(time.Minute)
			if l.state(400) != "none" {
				t.Errorf("the clone is %s", l.state(400))
			}
		},
		"answer 596 PUT …/config": func(t *testing.T, l *lab) {
			if s := l.tell("PUT /nodes/pve1/qemu/201/config description=x"); s.status != "596 Connection timed out" || s.took != world.WaitProxy {
				t.Errorf("got %s after %s", s.status, s.took)
			}
			if l.conf(201, "description") != "x" {
				t.Error("the work has not gone on")
			}
		},
		"answer 595 GET /nodes/pve2/* p=1 times=1": func(t *testing.T, l *lab) {
			if s := l.tell("GET /nodes/pve1/status"); s.status != "200 OK" {
				t.Errorf("another path: %s", s.status)
			}
			if s := l.tell("GET /nodes/pve2/status"); s.status != "595 Connection timed out" || s.took != world.WaitProxy {
				t.Errorf("got %s after %s", s.status, s.took)
			}
			if s := l.tell("GET /nodes/pve2/status"); s.status != "200 OK" {
				t.Errorf("the second time: %s", s.status)
			}
		},
		`answer 500 ANY /cluster/* text="got inotify poll request in wrong process"`: func(t *testing.T, l *lab) {
			if s := l.tell("GET /cluster/nextid"); s.status != "500 got inotify poll request in wrong process" {
				t.Errorf("got %s", s.status)
			}
		},
		"slow GET /cluster/resources by=20s": func(t *testing.T, l *lab) {
			if s := l.tell("GET /cluster/resources"); s.status != "200 OK" || s.took != 20*time.Second {
				t.Errorf("got %s after %s", s.status, s.took)
			}
		},
		"unauthorized for=1m user=root@pam!t1": func(t *testing.T, l *lab) {
			if s := l.tell("GET /version"); s.status != "401 Authentication failed!" || s.took != world.WaitUnauthorized {
				t.Errorf("got %s after %s", s.status, s.took)
			}
			l.Advance(time.Minute)
			if s := l.tell("GET /version"); s.status != "200 OK" {
				t.Errorf("a minute later: %s", s.status)
			}
		},
		"drop GET /version every=2": func(t *testing.T, l *lab) {
			var got []bool
			for range 4 {
				got = append(got, l.tell("GET /version").status == "200 OK")
			}
			if diff := cmp.Diff([]bool{true, false, true, false}, got); diff != "" {
				t.Error(diff)
			}
		},
		"drop GET /version on=pve2 after=1m": func(t *testing.T, l *lab) {
			l.entry = "pve2"
			if s := l.tell("GET /version"); s.status != "200 OK" {
				t.Errorf("before: %s", s.status)
			}
			l.Advance(time.Minute)
			if s := l.tell("GET /version"); s.status == "200 OK" {
				t.Error("after a minute it is not dropped")
			}
			l.entry = "pve1"
			if s := l.tell("GET /version"); s.status != "200 OK" {
				t.Errorf("through another host: %s", s.status)
			}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			l := newLab(t, nil)
			l.inject(fault)
			try(t, l)
		})
	}
}

func TestFaultsThatAreStates(t *testing.T) {
	for fault, try := range map[string]func(t *testing.T, l *lab){
		"lock vm=201 for=1m": func(t *testing.T, l *lab) {
			if s := l.tell("PUT /nodes/pve1/qemu/201/config description=x"); !strings.Contains(s.status, "lock-201.conf' - got timeout") || s.took != world.WaitFile {
				t.Errorf("got %s after %s", s.status, s.took)
			}
			l.Advance(45 * time.Second)
			if s := l.tell("PUT /nodes/pve1/qemu/201/config description=x"); s.status != "200 OK" || s.took != 5*time.Second {
				t.Errorf("just before its end: %s after %s", s.status, s.took)
			}
		},
		"lock vm=201 as=backup for=1m": func(t *testing.T, l *lab) {
			if s := l.tell("PUT /nodes/pve1/qemu/201/config description=x"); s.status != "500 VM is locked (backup)" {
				t.Errorf("got %s", s.status)
			}
			l.Advance(time.Minute)
			if lock := l.conf(201, "lock"); lock != "" {
				t.Errorf("it stays locked by %s", lock)
			}
		},
		"crash vm=201 after=10s": func(t *testing.T, l *lab) {
			l.Advance(9 * time.Second)
			if l.state(201) != "running" {
				t.Error("it dies too early")
			}
			l.Advance(2 * time.Second)
			if l.state(201) != "stopped" {
				t.Errorf("it is %s", l.state(201))
			}
		},
		"crash vm=201 every=10m times=2": func(t *testing.T, l *lab) {
			var got []string
			for range 3 {
				l.Advance(time.Second)
				got = append(got, l.state(201))
				l.tell("POST /nodes/pve1/qemu/201/status/start")
				l.Advance(10*time.Minute - time.Second)
			}
			if diff := cmp.Diff([]string{"stopped", "stopped", "running"}, got); diff != "" {
				t.Error(diff)
			}
		},
		"storage-lock shared for=20s": func(t *testing.T, l *lab) {
			if got := l.ended(clone + "400"); !strings.Contains(got, "cfs-lock 'storage-shared' error: got lock request timeout") {
				t.Errorf("got %s", got)
			}
			if l.state(400) != "none" {
				t.Error("what failed is still there")
			}
			l.Advance(20 * time.Second)
			if got := l.ended(clone + "400"); got != "OK" {
				t.Errorf("later it ended with %s", got)
			}
		},
		"full storage shared": func(t *testing.T, l *lab) {
			if got := l.ended(clone + "400"); !strings.Contains(got, "No space left on device") {
				t.Errorf("got %s", got)
			}
			if e := l.find("GET /nodes/pve2/storage", "shared"); e["avail"] != 0.0 {
				t.Errorf("%v is told to be left", e["avail"])
			}
			l.Heal()
			if got := l.ended(clone + "400"); got != "OK" {
				t.Errorf("later it ended with %s", got)
			}
		},
		"full storage local on=pve2": func(t *testing.T, l *lab) {
			a, b := l.find("GET /nodes/pve1/storage", "local"), l.find("GET /nodes/pve2/storage", "local")
			if a["avail"] == 0.0 || b["avail"] != 0.0 {
				t.Errorf("%v and %v are told to be left", a["avail"], b["avail"])
			}
		},
		"agent slow by=10s vm=201": func(t *testing.T, l *lab) {
			if s := l.tell("GET /nodes/pve1/qemu/201/agent/get-osinfo"); s.status != "200 OK" || s.took != 10*time.Second {
				t.Errorf("got %s after %s", s.status, s.took)
			}
		},
		"freeze resources for=6m": func(t *testing.T, l *lab) {
			l.ended("POST /nodes/pve1/qemu/201/status/stop")
			l.Advance(4 * time.Minute)
			if e := l.find("GET /cluster/resources", "qemu/201"); e["status"] != "running" {
				t.Errorf("after four minutes it is listed as %v", e["status"])
			}
			l.Advance(90 * time.Second)
			if e := l.find("GET /cluster/resources", "qemu/201"); e["status"] != "unknown" {
				t.Errorf("after five and a half minutes it is listed as %v", e["status"])
			}
			l.Advance(time.Minute)
			if e := l.find("GET /cluster/resources", "qemu/201"); e["status"] != "stopped" {
				t.Errorf("in the end it is listed as %v", e["status"])
			}
		},
		"no quorum for=2m": func(t *testing.T, l *lab) {
			if s := l.tell(clone + "400"); s.status != "500 cluster not ready - no quorum?" {
				t.Errorf("got %s", s.status)
			}
			l.Advance(2 * time.Minute)
			if s := l.tell(clone + "400"); s.status != "200 OK" {
				t.Errorf("later: %s", s.status)
			}
		},
		"no quorum for=1m every=10m times=2": func(t *testing.T, l *lab) {
			var got []bool
			for range 4 {
				l.Advance(30 * time.Second)
				l.With(func() { got = append(got, l.Quorate(l.Node("pve1"))) })
				l.Advance(9*time.Minute + 30*time.Second)
			}
			if diff := cmp.Diff([]bool{false, false, true, true}, got); diff != "" {
				t.Error(diff)
			}
		},
		"host pve3 down at=1m for=5m": func(t *testing.T, l *lab) {
			l.Advance(30 * time.Second)
			if l.state(301) != "running" {
				t.Errorf("it goes off too early")
			}
			l.Advance(time.Minute)
			if l.state(301) != "stopped" {
				t.Errorf("a machine on a host that is off is %s", l.state(301))
			}
			l.Advance(5 * time.Minute)
			if s := l.tell("GET /nodes/pve3/status"); s.status != "200 OK" {
				t.Errorf("in the end: %s", s.status)
			}
		},
		"expire token root@pam!t1 for=1m": func(t *testing.T, l *lab) {
			if s := l.tell("GET /version"); s.status != "401 Authentication failed!" || s.took != world.WaitUnauthorized {
				t.Errorf("got %s after %s", s.status, s.took)
			}
			l.Advance(time.Minute)
			if s := l.tell("GET /version"); s.status != "200 OK" {
				t.Errorf("later: %s", s.status)
			}
		},
		"revoke VM.Audit from=auto@pve!t1 for=1m\nrevoke VM.Clone path=/vms": func(t *testing.T, l *lab) {
			l.must("POST /access/users userid=auto@pve")
			l.must("PUT /access/acl path=/ roles=PVEAdmin users=auto@pve")
			l.root = l.Token("auto@pve", "t1", false)
			if all := l.must("GET /nodes/pve1/qemu").([]any); len(all) != 0 {
				t.Errorf("machines are still seen: %v", all)
			}
			if s := l.tell(clone + "400"); s.status != "403 Permission check failed (/vms/9000, VM.Clone)" {
				t.Errorf("got %s", s.status)
			}
			l.Advance(time.Minute)
			if all := l.must("GET /nodes/pve1/qemu").([]any); len(all) != 2 {
				t.Errorf("later these are seen: %v", all)
			}
		},
	} {
		t.Run(fault, func(t *testing.T) {
			l := newLab(t, nil)
			l.inject(fault)
			try(t, l)
		})
	}
}

func TestChanceStrikesTheSameEventsAgain(t *testing.T) {
	run := func() (got []bool) {
		l := newLab(t, nil)
		l.inject("drop GET /version p=0.5\ndrop GET /nodes p=0.5")
		for range 32 {
			got = append(got, l.tell("GET /version").status == "200 OK", l.tell("GET /nodes").status == "200 OK")
		}
		return got
	}
	first := run()
	if diff := cmp.Diff(first, run()); diff != "" {
		t.Error(diff)
	}
	hits := 0
	for _, ok := range first {
		hits += world.Number(!ok)
	}
	if hits < 20 || hits > 44 {
		t.Errorf("%d of %d were dropped", hits, len(first))
	}
}

func TestFaultsMustNameHostsAndStoragesThatThereAre(t *testing.T) {
	l := newLab(t, nil)
	for line, want := range map[string]string{
		"host pve4 down":            `host: must be one of pve1, pve2, pve3 (did you mean pve1?), was "pve4"`,
		"cut pve1 from pve2,x":      `from: must be one of pve1, pve2, pve3, was "x"`,
		"full storage lokal":        `storage: must be one of local, shared (did you mean local?), was "lokal"`,
		"fail clone on=nowhere":     `on: must be one of pve1, pve2, pve3, was "nowhere"`,
		"storage-lock local on=pve": `on: must be one of pve1, pve2, pve3 (did you mean pve1?), was "pve"`,
		"lock vm=77777":             `vm: must be a virtual machine of the cluster, or at= or after= must say when there is one, was "77777"`,
		"crash vm=77777 for=1m":     `vm: must be a virtual machine of the cluster, or at= or after= must say when there is one, was "77777"`,
	} {
		all, err := faults.Parse(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Cluster.Inject(all[0]); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if err := l.Cluster.Inject(faults.Fault{}); err == nil {
		t.Error("a fault that is none is accepted")
	}
}

func TestHealEndsEverything(t *testing.T) {
	l := newLab(t, nil)
	l.inject("no quorum\nhost pve3 down\ncut pve2 from pve1\nlock vm=201\nlock vm=301 as=backup\nstorage-lock shared\nfull storage local\nfail clone\ndrop GET /nope\nfreeze resources")
	l.Advance(time.Minute)
	l.Heal()
	l.Advance(time.Minute)
	for _, line := range []string{"PUT /nodes/pve1/qemu/201/config description=x", "PUT /nodes/pve3/qemu/301/config description=x", "GET /nodes/pve2/status"} {
		if s := l.tell(line); s.status != "200 OK" || s.took != 0 {
			t.Errorf("%s: %s after %s", line, s.status, s.took)
		}
	}
	if got := l.ended(clone + "400"); got != "OK" {
		t.Errorf("a clone ended with %s", got)
	}
	if e := l.find("GET /nodes/pve1/storage", "local"); e["avail"] == 0.0 {
		t.Error("the storage is still full")
	}
}
