package pvesim

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// heard lets time pass until a host has just reported about itself.
func (l *lab) heard(host string) {
	var at time.Time
	l.With(func() { at = l.Node(host).Tells })
	l.Advance(at.Sub(l.Now()) + time.Millisecond)
}

func TestListsAreUpToTenSecondsBehind(t *testing.T) {
	l := newLab(t, nil)
	l.heard("pve1")
	l.ended("POST /nodes/pve1/qemu vmid=400 name=fresh tags=a;b")
	entry := func() map[string]any { return l.find("GET /cluster/resources?type=vm", "qemu/400") }
	l.heard("pve1")
	told := l.Now()
	l.must("POST /nodes/pve1/qemu/400/status/start")
	l.Advance(2 * time.Second)
	if e := entry(); e["status"] != "stopped" || e["name"] != "fresh" {
		t.Errorf("right after the start it is listed as %v", e)
	}
	l.Advance(told.Add(9900 * time.Millisecond).Sub(l.Now()))
	if e := entry(); e["status"] != "stopped" {
		t.Errorf("after 9.9 s it is listed as %v", e["status"])
	}
	l.Advance(told.Add(10100 * time.Millisecond).Sub(l.Now()))
	if e := entry(); e["status"] != "running" {
		t.Errorf("after 10.1 s it is listed as %v", e["status"])
	}
	l.ended("POST /nodes/pve1/qemu/400/status/stop")
	if e := entry(); e["status"] != "running" {
		t.Errorf("right after the stop it is listed as %v", e["status"])
	}
	l.ended("DELETE /nodes/pve1/qemu/400")
	if e := entry(); e != nil {
		t.Errorf("right after it was destroyed it is listed as %v", e)
	}
}

func TestNewMachinesHaveNoNameInListsAtFirst(t *testing.T) {
	l := newLab(t, nil)
	l.heard("pve1")
	told := l.Now()
	l.ended("POST /nodes/pve1/qemu vmid=400 name=fresh tags=a;b")
	entry := func() map[string]any { return l.find("GET /cluster/resources?type=vm", "qemu/400") }
	l.Advance(told.Add(9900 * time.Millisecond).Sub(l.Now()))
	e := entry()
	if _, named := e["name"]; named || e["status"] != "unknown" || e["tags"] != "a;b" || e["node"] != "pve1" {
		t.Errorf("after 9.9 s it is listed as %v", e)
	}
	l.Advance(told.Add(10100 * time.Millisecond).Sub(l.Now()))
	if e := entry(); e["name"] != "fresh" || e["status"] != "stopped" {
		t.Errorf("after 10.1 s it is listed as %v", e)
	}
}

func TestWhatADeadHostToldExpiresAfterFiveMinutes(t *testing.T) {
	l := newLab(t, nil)
	l.heard("pve3")
	told := l.Now()
	l.inject("host pve3 down")
	status := func(line, id string) any { return l.find(line, id)["status"] }
	at := func(d time.Duration) { l.Advance(told.Add(d).Sub(l.Now())) }
	at(7900 * time.Millisecond)
	if got := status("GET /nodes", "node/pve3"); got != "online" {
		t.Errorf("after 7.9 s the host is %v: the others have not agreed yet", got)
	}
	at(8100 * time.Millisecond)
	node := l.find("GET /nodes", "node/pve3")
	if _, has := node["uptime"]; node["status"] != "offline" || has || node["maxmem"] == nil {
		t.Errorf("after 8.1 s the host is %v", node)
	}
	at(world.BroadcastExpires - time.Second)
	if got := status("GET /cluster/resources?type=vm", "qemu/301"); got != "running" {
		t.Errorf("just before five minutes its machine is %v", got)
	}
	at(world.BroadcastExpires + time.Second)
	if got := status("GET /cluster/resources?type=vm", "qemu/301"); got != "unknown" {
		t.Errorf("after five minutes its machine is %v", got)
	}
	if e := l.find("GET /nodes", "node/pve3"); e["maxmem"] != nil || e["status"] != "offline" {
		t.Errorf("after five minutes the host is %v", e)
	}
}

func TestCallsToAHostThatIsGoneTimeOutAndLaterHaveNoRoute(t *testing.T) {
	l := newLab(t, nil)
	l.inject("host pve3 down")
	if s := l.tell("GET /nodes/pve3/status"); s.status != "595 Connection timed out" || s.took != world.WaitProxy {
		t.Errorf("at first: %s after %s", s.status, s.took)
	}
	if s := l.tell("GET /nodes/pve3/qemu"); s.status != "595 No route to host" || s.took < 2*time.Second || s.took > 20*time.Second {
		t.Errorf("later: %s after %s", s.status, s.took)
	}
	if s := l.tell("GET /nodes/nosuch/qemu"); !strings.HasPrefix(s.status, "500 hostname lookup 'nosuch' failed") || s.took != 0 {
		t.Errorf("a host that never was: %s after %s", s.status, s.took)
	}
	l.entry = "pve3"
	if s := l.tell("GET /version"); !strings.Contains(s.status, "no route to host") {
		t.Errorf("asked itself: %s", s.status)
	}
}

func TestACallGoesOnWhenTheHostComesBackInTime(t *testing.T) {
	l := newLab(t, nil)
	l.inject("cut pve3 for=10s")
	if s := l.tell("GET /nodes/pve3/version"); s.status != "200 OK" || s.took != 10*time.Second {
		t.Errorf("got %s after %s", s.status, s.took)
	}
}

// Without quorum nothing is written, and everything that writes says so in its own words.
func TestWritesWithoutQuorum(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /pools poolid=before")
	l.inject("no quorum")
	for _, c := range []struct {
		line, want string
		took       time.Duration
	}{
		{"POST /nodes/pve1/qemu vmid=400", "500 cluster not ready - no quorum?", 0},
		{"POST /nodes/pve1/qemu/9000/clone newid=400", "500 cluster not ready - no quorum?", 0},
		{"POST /nodes/pve1/qemu/201/status/start", "500 cluster not ready - no quorum?", 0},
		{"POST /cluster/ha/resources sid=vm:201", "500 cluster not ready - no quorum?", 0},
		{"PUT /nodes/pve1/qemu/201/config description=x", "500 unable to open file '/etc/pve/nodes/pve1/qemu-server/201.conf.tmp.78' - Permission denied", 0},
		{"POST /pools poolid=q", "500 create pool failed: cfs-lock 'file-user_cfg' error: no quorum!", world.WaitQuorum},
		{"POST /access/users userid=q@pve", "500 create user failed: cfs-lock 'file-user_cfg' error: no quorum!", world.WaitQuorum},
		{"PUT /cluster/options description=x", "500 cfs-lock 'file-datacenter_cfg' error: no quorum!", world.WaitQuorum},
		{"POST /storage storage=more type=dir path=/x", "500 create storage failed: cfs-lock 'file-storage_cfg' error: no quorum!", world.WaitQuorum},
		{"GET /cluster/nextid", "200 OK", 0},
		{"GET /nodes/pve1/qemu/201/config", "200 OK", 0},
	} {
		if s := l.tell(c.line); s.status != c.want || s.took != c.took {
			t.Errorf("%s: %s after %s, want %s after %s", c.line, s.status, s.took, c.want, c.took)
		}
	}
	if got := l.ended("POST /nodes/pve1/qemu/201/status/stop"); got != "OK" {
		t.Errorf("stop ended with %s", got)
	}
	if got := l.ended("DELETE /nodes/pve1/qemu/201"); !strings.HasSuffix(got, "Permission denied") {
		t.Errorf("destroy ended with %s", got)
	}
}

func TestWhatWritesHangsWhileHostsAgree(t *testing.T) {
	l := newLab(t, nil)
	l.inject("cut pve1")
	if s := l.tell("POST /pools poolid=q"); !strings.Contains(s.status, "no quorum!") || s.took != world.WaitLost+world.WaitQuorum {
		t.Errorf("a write begun at the cut: %s after %s, want no quorum after 18 s", s.status, s.took)
	}
	if got := l.must("GET /cluster/status").([]any)[0].(map[string]any)["quorate"]; got != 0.0 {
		t.Errorf("then quorate is %v", got)
	}
	l.Heal()
	if s := l.tell("POST /pools poolid=q"); s.status != "200 OK" || s.took != world.WaitFound {
		t.Errorf("a write begun when links are back: %s after %s, want 200 OK after 3 s", s.status, s.took)
	}
}

func TestTheMajorityGoesOnAndTheMinorityKnowsOnlyWhatWas(t *testing.T) {
	l := newLab(t, nil)
	l.inject("cut pve3")
	l.Advance(world.WaitLost + time.Second)
	if got := l.ended("POST /nodes/pve1/qemu/9000/clone newid=400"); got != "OK" {
		t.Fatalf("the majority's clone ended with %s", got)
	}
	l.entry = "pve3"
	if e := l.find("GET /cluster/resources?type=vm", "qemu/400"); e != nil {
		t.Errorf("the minority knows of %v", e)
	}
	if s := l.tell("GET /cluster/nextid?vmid=400"); s.status != "200 OK" {
		t.Errorf("the minority takes 400 for used: %s", s.status)
	}
	if s := l.tell("POST /nodes/pve3/qemu vmid=400"); s.status != "500 cluster not ready - no quorum?" {
		t.Errorf("it makes a machine: %s", s.status)
	}
	l.Heal()
	l.Advance(world.WaitFound)
	if s := l.tell("GET /cluster/nextid?vmid=400"); !strings.HasPrefix(s.status, "400") {
		t.Errorf("after links are back it still takes 400 for free: %s", s.status)
	}
}

func TestCallsCanFailBetweenHostsThatHoldTogether(t *testing.T) {
	l := newLab(t, nil)
	l.inject("cut pve3 from pve1")
	if s := l.tell("GET /nodes/pve3/status"); s.status != "595 Connection timed out" {
		t.Errorf("through pve1: %s", s.status)
	}
	if e := l.find("GET /nodes", "node/pve3"); e["status"] != "online" {
		t.Errorf("it is listed as %v", e["status"])
	}
	l.entry = "pve2"
	if s := l.tell("GET /nodes/pve3/status"); s.status != "200 OK" {
		t.Errorf("through pve2: %s", s.status)
	}
	l.must("POST /pools poolid=q")
}

func TestAHostThatDiesTakesItsMachinesAndTasksAlong(t *testing.T) {
	l := newLab(t, nil)
	l.entry = "pve1"
	upid := l.must("POST /nodes/pve3/qemu/301/status/shutdown timeout=300").(string)
	l.inject("host pve3 down for=5m")
	l.Advance(time.Minute)
	var state string
	l.With(func() { state = l.VMs[301].State })
	if got := l.endOf(upid); got != "unexpected status" || state != "stopped" {
		t.Errorf("the task ended with %s, and the machine is %s", got, state)
	}
	l.Advance(5 * time.Minute)
	if e := l.find("GET /cluster/resources?type=vm", "qemu/301"); e["status"] != "running" {
		t.Errorf("when the host is back, a machine that starts with it is %v", e["status"])
	}
	if s := l.tell("GET /nodes/pve3/status"); s.status != "200 OK" || s.data.(map[string]any)["uptime"].(float64) > 120 {
		t.Errorf("the host says %s %v", s.status, s.data)
	}
}

func TestTheAnswerToACallWhoseHostDiesNeverComes(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) { cfg.VMs[2].Config["agent"] = "1" })
	l.inject("agent slow by=20s\nhost pve3 down after=5s for=1m")
	if s := l.tell("GET /nodes/pve3/qemu/301/agent/get-osinfo"); s.status != "596 Connection timed out" || s.took != world.WaitProxy {
		t.Errorf("through another host: %s after %s", s.status, s.took)
	}
	l.Heal()
	l.Advance(time.Minute)
	l.inject("agent slow by=20s\nhost pve3 down after=5s")
	l.entry = "pve3"
	if s := l.tell("GET /nodes/pve3/qemu/301/agent/get-osinfo"); !strings.Contains(s.status, "unexpected EOF") || s.took > 6*time.Second {
		t.Errorf("asked itself: %s after %s", s.status, s.took)
	}
}

// Agents that do not answer keep the few workers of pvedaemon busy, for everybody.
func TestAgentCallsStarveOthers(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) { cfg.VMs[1].Guest = "none" })
	for _, c := range []struct {
		calls         int
		longest       time.Duration
		broken, alike int
	}{{3, 9 * time.Second, 0, 3}, {12, 21 * time.Second, 0, 12}, {36, 45 * time.Second, 7, 29}} {
		lines := []string{"GET /version", "GET /nodes/pve1/qemu/201/status/current"}
		for range c.calls {
			lines = append(lines, "GET /nodes/pve1/qemu/201/agent/network-get-interfaces")
		}
		all := l.together(lines...)
		count := map[string]int{}
		var longest time.Duration
		for _, s := range all[2:] {
			count[s.status]++
			longest = max(longest, s.took)
		}
		if all[0].took != 0 || all[1].status != "200 OK" {
			t.Errorf("%d calls: /version took %s, and status/current ended with %s", c.calls, all[0].took, all[1].status)
		}
		if count["500 QEMU guest agent is not running"] != c.alike || count["596 Broken pipe"] != c.broken || longest > c.longest {
			t.Errorf("%d calls: %v, the last after %s", c.calls, count, longest)
		}
	}
}

func TestTheProxyGivesUpAndTheWorkGoesOn(t *testing.T) {
	l := newLab(t, nil)
	l.inject("agent slow by=40s")
	if s := l.tell("GET /nodes/pve1/qemu/201/agent/get-osinfo"); s.status != "596 Connection timed out" || s.took != world.WaitProxy {
		t.Errorf("got %s after %s", s.status, s.took)
	}
	busy := func() (n int) {
		l.With(func() {
			for _, w := range l.Node("pve1").Workers {
				n += world.Number(w.Busy)
			}
		})
		return n
	}
	if n := busy(); n != 1 {
		t.Errorf("%d workers are busy, want the one that still waits", n)
	}
	l.Advance(10 * time.Second)
	if n := busy(); n != 0 {
		t.Errorf("%d workers are busy when the work is done", n)
	}
}

func TestAHostCanBeToldToRebootOrToStayOff(t *testing.T) {
	l := newLab(t, nil)
	for _, entry := range []string{"pve1", "pve3"} {
		l.entry = entry
		if s := l.tell("POST /nodes/pve3/status command=reboot"); s.status != "200 OK" {
			t.Fatalf("through %s: %s", entry, s.status)
		}
		if l.state(301) != "stopped" {
			t.Errorf("its machine is %s", l.state(301))
		}
		l.Advance(world.RebootTakes + time.Minute)
		if l.state(301) != "running" {
			t.Errorf("when it is back, its machine is %s", l.state(301))
		}
	}
	l.must("POST /nodes/pve3/status command=shutdown")
	l.Advance(time.Hour)
	l.entry = "pve1"
	if e := l.find("GET /nodes", "node/pve3"); e["status"] != "offline" {
		t.Errorf("told to shut down it is %v", e["status"])
	}
}
