package pvesim

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// listed are the tasks of a list, by what they did and to what.
func (r *rig) listed(line string) []string {
	r.Helper()
	all := []string{}
	for _, e := range r.must(line).([]any) {
		task, _ := e.(map[string]any)
		all = append(all, fmt.Sprint(task["type"], " ", task["id"], " ", task["status"]))
	}
	return all
}

func TestTasksAreListedAsAskedFor(t *testing.T) {
	r := newRig(t, nil)
	r.does("POST /nodes/pve1/qemu vmid=100")
	r.Advance(time.Second)
	r.ends(r.start("POST /nodes/pve1/qemu/555/status/start"), "Configuration file 'nodes/pve1/qemu-server/555.conf' does not exist")
	r.Advance(time.Second)
	r.inject("warn stop")
	r.ends(r.start("POST /nodes/pve1/qemu/100/status/stop"), "WARNINGS: 1")
	r.Advance(time.Second)
	r.start("POST /nodes/pve1/qemu/9000/clone newid=101")
	failed := "qmstart 555 Configuration file 'nodes/pve1/qemu-server/555.conf' does not exist"
	made, warned, running := "qmcreate 100 OK", "qmstop 100 WARNINGS: 1", "qmclone 9000 RUNNING"
	at := r.Node("pve1").Tasks[1].Start.Unix()
	for query, want := range map[string][]string{
		"":                                  {warned, failed, made},
		"source=active":                     {running},
		"source=all":                        {running, warned, failed, made},
		"source=all&limit=2":                {running, warned},
		"start=1&limit=1":                   {failed},
		"limit=0":                           {},
		"errors=1":                          {warned, failed},
		"statusfilter=error":                {failed},
		"statusfilter=ok,warning":           {warned, made},
		"typefilter=qmcreate":               {made},
		"vmid=100":                          {warned, made},
		"userfilter=ROOT":                   {warned, failed, made},
		"userfilter=nobody":                 {},
		fmt.Sprintf("since=%d", at):         {warned, failed},
		fmt.Sprintf("until=%d", at):         {failed, made},
		fmt.Sprintf("since=%d&until=0", at): {},
		"source=all&vmid=9000&typefilter=qmclone": {running},
	} {
		if diff := cmp.Diff(want, r.listed("GET /nodes/pve1/tasks "+query)); diff != "" {
			t.Errorf("%q: %s", query, diff)
		}
	}
	if got := r.listed("GET /cluster/tasks"); len(got) != 4 || got[0] != "qmclone 9000 <nil>" {
		t.Errorf("the cluster's are %q", got)
	}
}

func TestLogsAreTurnedPageByPage(t *testing.T) {
	r := newRig(t, nil)
	clone := r.does("POST /nodes/pve1/qemu/9000/clone newid=100")
	lines := len(clone.Log)
	for query, want := range map[string]int{"": lines, "limit=0": lines, "limit=2": 2, "start=2": lines - 2, fmt.Sprintf("start=%d", lines): 0, "start=999": 0} {
		if all, _ := r.must("GET /nodes/pve1/tasks/" + clone.UPID + "/log " + query).([]any); len(all) != want {
			t.Errorf("%q: %d lines, want %d", query, len(all), want)
		}
	}
	r.inject("slow resize by=10s")
	silent := r.start("PUT /nodes/pve1/qemu/100/resize disk=scsi0 size=%2B1G")
	want := []any{map[string]any{"n": 1., "t": "no content"}}
	if diff := cmp.Diff(want, r.must("GET /nodes/pve1/tasks/"+silent.UPID+"/log")); diff != "" {
		t.Errorf("before it has said anything: %s", diff)
	}
	if shown := r.must("GET /nodes/pve1/tasks/" + silent.UPID + "/status").(map[string]any); shown["status"] != "running" || shown["exitstatus"] != nil {
		t.Errorf("it is %v", shown)
	}
}

func TestTasksOfOthersAreTheirs(t *testing.T) {
	r := newRig(t, nil)
	mine := r.does("POST /nodes/pve1/qemu vmid=100")
	they := r.as("VM.PowerMgmt@/vms/100")
	theirs := they.does("POST /nodes/pve1/qemu/100/status/stop")
	for _, what := range []string{"status", "log"} {
		they.must("GET /nodes/pve1/tasks/" + theirs.UPID + "/" + what)
		they.refused("GET /nodes/pve1/tasks/"+mine.UPID+"/"+what, "403 Permission check failed (/nodes/pve1, Sys.Audit)")
		r.must("GET /nodes/pve1/tasks/" + theirs.UPID + "/" + what)
	}
	they.refused("DELETE /nodes/pve1/tasks/"+mine.UPID, "403 Permission check failed (/nodes/pve1, Sys.Modify)")
	if got := they.listed("GET /nodes/pve1/tasks"); len(got) != 1 {
		t.Errorf("they see %q", got)
	}
	if got := they.listed("GET /cluster/tasks"); len(got) != 0 {
		t.Errorf("in the cluster they see %q", got)
	}
}

func TestTaskThatDoesNotListenIsKilled(t *testing.T) {
	r := newRig(t, nil)
	r.With(func() {
		r.Work(r.Node("pve1"), &access.Identity{User: access.RootUser}, "qmstart", "1", func(j *world.Errand) error { j.Process.Sleep(time.Hour); return nil })
	})
	task := r.Node("pve1").Tasks[0]
	began := r.Now()
	r.must("DELETE /nodes/pve1/tasks/" + task.UPID)
	if took := r.Now().Sub(began); took != 5*time.Second || task.Exit != "unexpected status" {
		t.Errorf("after %s it ended %q", took, task.Exit)
	}
}
