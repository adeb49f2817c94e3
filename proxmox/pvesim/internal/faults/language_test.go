package faults

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFaultsAreReadFromTheirLines(t *testing.T) {
	type words = map[string]string
	for _, c := range []struct {
		line, form string
		arg, opt   words
	}{
		{"fail clone on=pve2 nth=3", "fail TASK [text=TEXT] [log=TEXT]", words{"TASK": "clone"}, words{"on": "pve2", "nth": "3"}},
		{`fail start p=0.1 text="start failed: \"no\" memory" # on Mondays`, "fail TASK [text=TEXT] [log=TEXT]", words{"TASK": "start"}, words{"p": "0.1", "text": `start failed: "no" memory`}},
		{"fail boot p=0.1", "fail boot", words{}, words{"p": "0.1"}},
		{"slow start p50=40s p99=3m", "slow TASK" + slowness, words{"TASK": "start"}, words{"p50": "40s", "p99": "3m"}},
		{"slow GET /cluster/resources by=20s", "slow METHOD PATH" + slowness, words{"METHOD": "GET", "PATH": "/cluster/resources"}, words{"by": "20s"}},
		{"lose answer POST …/clone nth=1", "lose answer METHOD PATH", words{"METHOD": "POST", "PATH": "…/clone"}, words{"nth": "1"}},
		{"answer 596 PUT .../config", "answer CODE METHOD PATH [text=TEXT]", words{"CODE": "596", "METHOD": "PUT", "PATH": ".../config"}, words{}},
		{"unauthorized for=1m", "unauthorized", words{}, words{"for": "1m"}},
		{"lock vm=201 for=1m", "lock vm=VMID [as=LOCK]", words{}, words{"vm": "201", "for": "1m"}},
		{"storage-lock local for=20s", "storage-lock STORAGE [on=HOST]", words{"STORAGE": "local"}, words{"for": "20s"}},
		{"kill task clone nth=2", "kill task TASK", words{"TASK": "clone"}, words{"nth": "2"}},
		{"host pve3 down for=5m every=1h times=3", "host HOST down", words{"HOST": "pve3"}, words{"for": "5m", "every": "1h", "times": "3"}},
		{"host pve3 maintenance", "host HOST maintenance", words{"HOST": "pve3"}, words{}},
		{"cut pve3 from pve1,pve2", "cut HOSTS from HOSTS", words{"HOSTS": "pve3", "FROM": "pve1,pve2"}, words{}},
		{"cut pve3,pve4 after=10s", "cut HOSTS", words{"HOSTS": "pve3,pve4"}, words{"after": "10s"}},
		{"revoke VM.Audit from=auto@pve!t1 at=10m for=1m", "revoke PRIVILEGE [from=WHO] [path=PATH]", words{"PRIVILEGE": "VM.Audit"}, words{"from": "auto@pve!t1", "at": "10m", "for": "1m"}},
		{"expire token auto@pve!t1", "expire token WHO", words{"WHO": "auto@pve!t1"}, words{}},
		{"agent slow by=20s", "agent slow by=DURATION [vm=VMID]", words{}, words{"by": "20s"}},
		{"full storage local on=pve2", "full storage STORAGE [on=HOST]", words{"STORAGE": "local"}, words{"on": "pve2"}},
		{"steal id nth=1 to=pve2", "steal id [to=HOST]", words{}, words{"nth": "1", "to": "pve2"}},
	} {
		all, err := Parse("# nothing\n\n  " + c.line + "\n")
		if err != nil || len(all) != 1 {
			t.Errorf("%s: %d faults, %v", c.line, len(all), err)
			continue
		}
		f := all[0]
		if diff := cmp.Diff([]any{c.form, c.arg, c.opt}, []any{f.form.form, f.arg, f.opt}); diff != "" {
			t.Errorf("%s: %s", c.line, diff)
		}
		again, err := Parse(f.String())
		if err != nil || len(again) != 1 || again[0].String() != f.String() {
			t.Errorf("%s: does not come back from %s: %v", c.line, f, err)
		}
	}
}

func TestFaultsAreRefusedWithWordRuleAndValue(t *testing.T) {
	tasks := kinds["TASK"].rule
	for line, want := range map[string]string{
		"fial clone":                     `line 1: fial: the first word must be one of agent, answer, crash, cut, drop, expire, fail, freeze, full, host, kill, lock, lose, no, revoke, slow, steal, storage-lock, unauthorized, warn (did you mean fail?), was "fial"`,
		"fail clnoe":                     `line 1: task: must be ` + tasks + ` (did you mean clone?), was "clnoe"`,
		"fail":                           `line 1: fail: must go on with ` + tasks,
		"fail clone nht=3":               `line 1: nht: an option of fail TASK must be one of after, at, every, for, log, nth, on, p, text, times, user, vm (did you mean nth?), was "nht"`,
		"fail clone nth=0":               `line 1: nth: must be a whole number from 1 up, was "0"`,
		"fail clone nth=1 nth=2":         `line 1: nth: must be given once`,
		"fail clone now":                 `line 1: fail TASK: must end here or go on with name=value, was "now"`,
		"fail start p=1.5":               `line 1: p: must be a number greater than 0, and at most 1, was "1.5"`,
		"host pve3 dwn":                  `line 1: host pve3: must be "down", was "dwn"`,
		"slow start":                     `line 1: by, p50: one of them must be given`,
		"slow start p50=3m p99=40s":      `line 1: p99: must be at least p50, which is 3m, was "40s"`,
		"slow start by=20":               `line 1: by: must be a duration greater than 0 with its unit, such as 90s or 5m, was "20"`,
		"agent slow":                     `line 1: by: must be given for agent slow by=DURATION [vm=VMID]`,
		"lose answer POTS /x":            `line 1: method: must be one of ANY, DELETE, GET, POST, PUT (did you mean POST?), was "POTS"`,
		"drop GET nodes":                 `line 1: path: must be a path such as /nodes/*/qemu or …/clone, was "nodes"`,
		"answer 200 GET /nodes":          `line 1: code: must be a status from 400 to 599, was "200"`,
		"\nno quorum for=-1s\nlock vm=7": "line 2: for: must be a duration greater than 0 with its unit, such as 90s or 5m, was \"-1s\"\nline 3: vm: must be a number from 100 up, was \"7\"",
		`fail clone text="x`:             `line 1: text="x: must end with a quotation mark`,
		"revoke Foo.Bar":                 `line 1: privilege: must be a privilege of Proxmox VE such as VM.Audit, was "Foo.Bar"`,
		"no quorum nth=2":                `line 1: nth: an option of no quorum must be one of after, at, every, for, p, times (did you mean at?), was "nth"`,
	} {
		_, err := Parse(line)
		if err == nil {
			t.Errorf("%s: is accepted", line)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
}
