package pvesim

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// service is how high availability says that a machine is doing.
func (l *lab) service(sid string) string {
	e := l.find("GET /cluster/ha/status/current", "service:"+sid)
	state, _ := e["state"].(string)
	return state
}

func TestHighAvailabilityFollowsLater(t *testing.T) {
	l := newLab(t, nil)
	l.ended("POST /nodes/pve1/qemu/201/status/stop")
	l.must("POST /cluster/ha/resources sid=vm:201 state=stopped")
	if got := l.service("vm:201"); got != "queued" {
		t.Errorf("at first it is %s", got)
	}
	l.Advance(time.Minute)
	if got := l.ended("POST /nodes/pve1/qemu/201/status/start"); got != "OK" || l.state(201) != "stopped" {
		t.Errorf("hastart ended with %s, and the machine is %s", got, l.state(201))
	}
	l.Advance(30 * time.Second)
	if l.state(201) != "running" || l.service("vm:201") != "started" {
		t.Errorf("half a minute later the machine is %s, and the service %s", l.state(201), l.service("vm:201"))
	}
	if got := l.ended("POST /nodes/pve1/qemu/201/status/stop"); got != "OK" || l.state(201) != "running" {
		t.Errorf("hastop ended with %s, and the machine is %s", got, l.state(201))
	}
	l.Advance(time.Minute)
	if l.state(201) != "stopped" || l.service("vm:201") != "stopped" {
		t.Errorf("a minute later the machine is %s, and the service %s", l.state(201), l.service("vm:201"))
	}
	if s := l.tell("DELETE /nodes/pve1/qemu/201"); s.status != "500 unable to remove VM 201 - used in HA resources and purge parameter not set." {
		t.Errorf("destroy: %s", s.status)
	}
	if got := l.ended("DELETE /nodes/pve1/qemu/201?purge=1"); got != "OK" {
		t.Errorf("destroy with purge ended with %s", got)
	}
	l.Advance(time.Minute)
	if all := l.must("GET /cluster/ha/resources").([]any); len(all) != 0 {
		t.Errorf("there are still resources: %v", all)
	}
}

// A managed machine has as long to shut down as the last call says that the manager has heard by
// its next round: a stop right after a shutdown leaves it no time.
func TestHighAvailabilityShutsDownWithinTheLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls []string
		after time.Duration
		want  string
	}{
		{"a shutdown has its time", []string{"shutdown timeout=300"}, 2 * time.Minute, "running"},
		{"and no more", []string{"shutdown timeout=60"}, 2 * time.Minute, "stopped"},
		{"the usual time is a minute", []string{"shutdown"}, 40 * time.Second, "running"},
		{"a stop leaves none", []string{"stop"}, 40 * time.Second, "stopped"},
		{"nor after a shutdown", []string{"shutdown timeout=300", "stop"}, 40 * time.Second, "stopped"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, nil)
			l.must("POST /cluster/ha/resources sid=201")
			l.Advance(time.Minute)
			l.inject("fail boot")
			l.ended("POST /nodes/pve1/qemu/201/status/reset") // it obeys no more
			for _, call := range c.calls {
				l.ended("POST /nodes/pve1/qemu/201/status/" + call)
			}
			l.Advance(c.after)
			if got := l.state(201); got != c.want {
				t.Errorf("it is %s, want %s", got, c.want)
			}
		})
	}
}

func TestAManagedMachineThatDiesIsStartedAgain(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /cluster/ha/resources sid=201")
	l.Advance(time.Minute)
	l.inject("crash vm=201")
	l.Advance(time.Second)
	if l.state(201) != "stopped" {
		t.Fatalf("it is %s", l.state(201))
	}
	l.Advance(30 * time.Second)
	if l.state(201) != "running" {
		t.Errorf("half a minute later it is %s", l.state(201))
	}
}

func TestWhatRanOnADeadHostIsRecoveredElsewhere(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /cluster/ha/resources sid=vm:301")
	l.Advance(time.Minute)
	l.inject("host pve3 down")
	at := func() (name string) {
		l.With(func() { name = l.VMs[301].Host.Name })
		return name
	}
	l.Advance(80 * time.Second)
	if got := l.service("vm:301"); got != "fence" || at() != "pve3" {
		t.Errorf("after 80 s it is %s on %s", got, at())
	}
	l.Advance(2 * time.Minute)
	if at() == "pve3" || l.state(301) != "running" {
		t.Errorf("in the end it is %s on %s", l.state(301), at())
	}
}

func TestMaintenanceMovesManagedMachinesAway(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /cluster/ha/resources sid=vm:201")
	l.Advance(time.Minute)
	l.inject("host pve1 maintenance for=10m")
	if e := l.find("GET /cluster/resources?type=node", "node/pve1"); e["hastate"] != "maintenance" {
		t.Errorf("the host is listed as %v", e)
	}
	l.Advance(3 * time.Minute)
	var at string
	l.With(func() { at = l.VMs[201].Host.Name })
	if at == "pve1" || l.state(201) != "running" {
		t.Errorf("the machine is %s on %s", l.state(201), at)
	}
	manager := l.find("GET /cluster/ha/status/current", "lrm:pve1")
	if text, _ := manager["status"].(string); len(text) < 24 || text[:24] != "pve1 (maintenance mode, " {
		t.Errorf("the host's manager is %v", manager)
	}
	l.Advance(10 * time.Minute)
	if e := l.find("GET /cluster/resources?type=node", "node/pve1"); e["hastate"] != nil {
		t.Errorf("after maintenance the host is listed as %v", e)
	}
}

func TestAHostWithServicesAndWithoutQuorumResetsItself(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /cluster/ha/resources sid=vm:301")
	l.Advance(time.Minute)
	l.inject("cut pve3 for=10m")
	l.Advance(90 * time.Second)
	up := true
	l.With(func() { up = l.Node("pve3").Up })
	if up {
		t.Error("its watchdog has not fired")
	}
	l.Advance(3 * time.Minute)
	l.With(func() { up = l.Node("pve3").Up })
	if !up {
		t.Error("it has not started again")
	}
}

func TestGroupsWorkUntilRelease9AndRulesFromThen(t *testing.T) {
	old := newLab(t, func(cfg *world.Config) { cfg.Release = "8.4.1" })
	old.must("POST /cluster/ha/groups group=first nodes=pve1:2,pve2 nofailback=1")
	old.must("POST /cluster/ha/resources sid=vm:201 group=first")
	if g := old.must("GET /cluster/ha/groups").([]any)[0].(map[string]any); g["nodes"] != "pve1:2,pve2" || g["nofailback"] != 1.0 || g["type"] != "group" {
		t.Errorf("the group is %v", g)
	}
	if s := old.tell("DELETE /cluster/ha/groups/first"); s.status != "500 delete ha group failed: ha group is used by service 'vm:201'" {
		t.Errorf("removing it: %s", s.status)
	}
	l := newLab(t, nil)
	for line, want := range map[string]string{
		"GET /cluster/ha/groups":                                                                                 "500 cannot index groups: ha groups have been migrated to rules",
		"POST /cluster/ha/groups group=first nodes=pve1":                                                         "500 cannot create group: ha groups have been migrated to rules",
		"POST /cluster/ha/resources sid=vm:201 group=first":                                                      "500 invalid parameter 'group': ha groups have been migrated to rules",
		"POST /cluster/ha/resources sid=4711":                                                                    "500 unable do add resource - VM/CT 4711 does not exist",
		"PUT /cluster/ha/resources/vm:201 state=stopped":                                                         "500 update resource failed: no such resource 'vm:201'",
		"DELETE /cluster/ha/resources/vm:201":                                                                    "500 cannot delete service 'vm:201', not HA managed!",
		"POST /cluster/ha/rules rule=r1 type=node-affinity resources=vm:201":                                     "400 Parameter verification failed.",
		"POST /cluster/ha/rules rule=r1 type=node-affinity nodes=pve1 resources=vm:201":                          "500 create ha rule failed: cannot use unmanaged resource(s) vm:201.",
		"POST /cluster/ha/rules rule=r1 type=resource-affinity affinity=negative resources=vm:201 comment=apart": "500 create ha rule failed: cannot use unmanaged resource(s) vm:201.",
	} {
		if s := l.tell(line); s.status != want {
			t.Errorf("%s: %s, want %s", line, s.status, want)
		}
	}
	l.must("POST /cluster/ha/resources sid=vm:201")
	l.must("POST /cluster/ha/rules rule=r1 type=node-affinity nodes=pve1,pve2:3 resources=vm:201 strict=1")
	const nowhere = "500 create ha rule failed: cannot use non-existant node(s) pve9." //nolint:misspell // it is what the server says
	if s := l.tell("POST /cluster/ha/rules rule=r2 type=node-affinity nodes=pve9 resources=vm:201"); s.status != nowhere {
		t.Errorf("a rule about nowhere: %s", s.status)
	}
	if r := l.must("GET /cluster/ha/rules/r1").(map[string]any); r["strict"] != 1.0 || r["nodes"] != "pve1,pve2:3" || r["order"] != 1.0 {
		t.Errorf("the rule is %v", r)
	}
	l.must("DELETE /cluster/ha/resources/vm:201")
	if all := l.must("GET /cluster/ha/rules").([]any); len(all) != 0 {
		t.Errorf("rules about nothing are left: %v", all)
	}
}

func TestServicesAreMovedWhenTheManagerHears(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /cluster/ha/resources sid=vm:201")
	l.Advance(time.Minute)
	got := l.must("POST /cluster/ha/resources/vm:201/migrate node=pve2").(map[string]any)
	if got["sid"] != "vm:201" || got["requested-node"] != "pve2" {
		t.Errorf("it answers %v", got)
	}
	at := func() (name string) {
		l.With(func() { name = l.VMs[201].Host.Name })
		return name
	}
	if at() != "pve1" {
		t.Error("it has moved at once")
	}
	l.Advance(time.Minute)
	if at() != "pve2" || l.state(201) != "running" || l.service("vm:201") != "started" {
		t.Errorf("a minute later it is %s on %s, and the service %s", l.state(201), at(), l.service("vm:201"))
	}
	for line, want := range map[string]string{
		"POST /cluster/ha/resources/vm:201/relocate node=pve9": "500 no such cluster node 'pve9'",
		"POST /cluster/ha/resources/vm:301/migrate node=pve1":  "500 resource 'vm:301' is not HA managed",
		"GET /cluster/ha/resources/vm:301":                     "500 no such resource 'vm:301'",
		"PUT /cluster/ha/resources/vm:201 digest=0":            "500 update resource failed: detected modified configuration - file changed by other user? Try again.",
	} {
		if s := l.tell(line); s.status != want {
			t.Errorf("%s: %s, want %s", line, s.status, want)
		}
	}
}

func TestTheManagerNotesWhatItDoes(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /cluster/ha/resources sid=vm:201")
	l.must("POST /cluster/ha/resources sid=vm:301 state=ignored")
	l.Advance(time.Minute)
	l.inject("host pve3 down")
	l.Advance(40 * time.Second)
	notes := l.must("GET /cluster/ha/status/manager_status").(map[string]any)["manager_status"].(map[string]any)
	nodes, services := notes["node_status"].(map[string]any), notes["service_status"].(map[string]any)
	if notes["master_node"] != "pve1" || nodes["pve1"] != "online" || nodes["pve3"] != "unknown" || len(services) != 1 {
		t.Errorf("it notes %v", notes)
	}
	if got := l.service("vm:301"); got != "ignored" {
		t.Errorf("a service that is ignored is %s", got)
	}
	l.inject("host pve2 maintenance")
	l.Advance(40 * time.Second)
	out := l.must("GET /cluster/ha/status/manager_status").(map[string]any)
	nodes = out["manager_status"].(map[string]any)["node_status"].(map[string]any)
	managers := out["lrm_status"].(map[string]any)
	if nodes["pve3"] != "fence" || nodes["pve2"] != "maintenance" || managers["pve2"].(map[string]any)["mode"] != "maintenance" {
		t.Errorf("later it notes %v", out)
	}
}

func TestAServiceThatDoesNotStartIsGivenUpUntilItIsDisabled(t *testing.T) {
	l := newLab(t, nil)
	l.ended("POST /nodes/pve1/qemu/201/status/stop")
	l.inject("fail start")
	l.must("POST /cluster/ha/resources sid=vm:201")
	l.Advance(3 * time.Minute)
	if got := l.service("vm:201"); got != "error" {
		t.Errorf("the service is %s", got)
	}
	if s := l.tell("PUT /cluster/ha/resources/vm:201 state=started"); s.status != "500 service 'vm:201' in error state, must be disabled and fixed first" {
		t.Errorf("starting it: %s", s.status)
	}
	l.Heal()
	l.must("PUT /cluster/ha/resources/vm:201 state=disabled")
	l.Advance(30 * time.Second)
	if got := l.service("vm:201"); got != "disabled" {
		t.Errorf("disabled, it is %s", got)
	}
	l.must("PUT /cluster/ha/resources/vm:201 state=started")
	l.Advance(time.Minute)
	if l.state(201) != "running" {
		t.Errorf("then the machine is %s", l.state(201))
	}
}

func TestEntriesOfHighAvailabilityChange(t *testing.T) {
	old := newLab(t, func(cfg *world.Config) { cfg.Release = "8.4.1" })
	old.must("POST /cluster/ha/groups group=first nodes=pve1 comment=x")
	old.must("PUT /cluster/ha/groups/first nodes=pve2 restricted=1 delete=comment")
	if g := old.must("GET /cluster/ha/groups/first").(map[string]any); g["nodes"] != "pve2" || g["restricted"] != 1.0 || g["comment"] != nil {
		t.Errorf("the group is %v", g)
	}
	for line, want := range map[string]string{
		"GET /cluster/ha/groups/second":                  "500 no such ha group 'second'",
		"PUT /cluster/ha/groups/second nodes=pve1":       "500 update ha group failed: no such ha group 'second'",
		"POST /cluster/ha/groups group=first nodes=pve1": "500 create ha group failed: ha group ID 'first' already defined",
		"POST /cluster/ha/resources sid=vm:201 group=no": "500 HA group 'no' does not exist",
	} {
		if s := old.tell(line); s.status != want {
			t.Errorf("%s: %s, want %s", line, s.status, want)
		}
	}
	old.must("DELETE /cluster/ha/groups/first")
	l := newLab(t, nil)
	l.must("POST /cluster/ha/resources sid=vm:201 max_restart=3")
	l.must("POST /cluster/ha/resources sid=vm:301")
	l.must("POST /cluster/ha/rules rule=apart type=resource-affinity affinity=negative resources=vm:201,vm:301")
	l.must("PUT /cluster/ha/rules/apart type=resource-affinity affinity=positive")
	if got := names(l.must("GET /cluster/ha/rules?resource=vm:301&type=resource-affinity"), "affinity"); got != "positive" {
		t.Errorf("the rule is %s", got)
	}
	if got := names(l.must("GET /cluster/ha/rules?type=node-affinity"), "rule"); got != "" {
		t.Errorf("rules about hosts are %s", got)
	}
	if s := l.tell("PUT /cluster/ha/rules/none type=resource-affinity"); s.status != "500 update HA rules failed: HA rule 'none' does not exist" {
		t.Errorf("a rule that is not there: %s", s.status)
	}
	if got := names(l.must("GET /cluster/ha/resources?type=vm"), "max_restart"); got != "3 <nil>" {
		t.Errorf("the resources' restarts are %s", got)
	}
}
