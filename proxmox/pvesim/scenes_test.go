package pvesim

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/reference"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// scene is the state in which a group was recorded. It is built by calls, so that it is one that
// the emulator can come to.
type scene struct {
	hosts  int             // one or three; 0 is one
	entry  string          // the host that is asked; empty is pve1
	before []string        // calls of root's, each with the task that it starts
	after  []string        // groups that are replayed first, because their traces are looked at
	then   func(p *player) // what no call does
}

// alone is the host that the first recordings were made of.
func alone() world.Config {
	second := func(s float64) timing.Range {
		d := time.Duration(s * float64(time.Second))
		return timing.Range{Min: d, Max: d}
	}
	return world.Config{
		Hosts: []world.Host{{Name: "pve1", CPUs: 2, Memory: 25276502016}},
		Storages: []world.Storage{{
			Name: "local", Type: "dir", Total: 270553174016, Used: 30 << 30,
			Content: []string{"rootdir", "iso", "vztmpl", "images", "backup", "snippets"},
		}},
		// What the recorded machine took.
		Times: timing.Machine{Clone: second(0.8), Boot: second(20), Delete: second(0.3)},
	}
}

// three is the cluster that it later became part of.
func three() world.Config {
	cfg := alone()
	cfg.Name = "lab"
	for _, name := range []string{"pve2", "pve3"} {
		cfg.Hosts = append(cfg.Hosts, world.Host{Name: name, CPUs: 2, Memory: 25276502016})
	}
	return cfg
}

// rootPassword is what the recording writes in the place of passwords.
const rootPassword = "PASSWORD"

// The machines and users that the recordings meet, made by calls.
var (
	tmpl = []string{
		"POST /nodes/pve1/qemu?vmid=9000&name=tmpl&agent=1&boot=order%3Dscsi0&cores=1&memory=512&net0=virtio,bridge%3Dvmbr0&ostype=l26&scsi0=local:1,format%3Dqcow2&scsihw=virtio-scsi-pci",
		"PUT /nodes/pve1/qemu/9000/config?ide2=local:cloudinit,format%3Dqcow2",
	}
	tmplRuns   = "POST /nodes/pve1/qemu/9000/status/start"
	tmplIsOne  = "POST /nodes/pve1/qemu/9000/template"
	upper      = "POST /nodes/pve1/qemu?vmid=201&name=UPPER-ok&cores=1&protection=0&tags=a.b-c_d%2Be&description=" + `plimsoll:+%7B%22pool%22:%22a%22,%22n%22:1%7D%0A%C3%BC%C3%B1%2520+%23`
	upperRuns  = "POST /nodes/pve1/qemu/201/status/start"
	upperCopy  = "POST /nodes/pve1/qemu/201/clone?newid=301"
	workers    = "POST /pools?poolid=workers&comment=c"
	full1      = "POST /nodes/pve1/qemu/9000/clone?newid=312&full=1&name=full-1"
	full1Runs  = "POST /nodes/pve1/qemu/312/status/start"
	disk7      = "POST /nodes/pve1/storage/local/content?filename=vm-312-disk-7.qcow2&format=qcow2&size=1M&vmid=312"
	sharedDir  = "POST /storage?storage=shared&type=dir&path=/mnt/shared&shared=1&content=images,snippets,iso"
	loc2       = "POST /storage?storage=loc2&type=dir&path=/var/lib/loc2&nodes=pve2&content=images"
	autoscaler = []string{
		"POST /access/users?userid=auto@pve&comment=autoscaler",
		"POST /access/users/auto@pve/token/t1?comment=plimsoll&privsep=1",
		"PUT /access/acl?path=/&roles=PVEAuditor&users=auto@pve",
		"PUT /access/acl?path=/&roles=PVEAuditor&tokens=auto@pve!t1",
	}
	sharedTmpl = []string{
		"POST /nodes/pve1/qemu?vmid=8000&name=stmpl&memory=64&net0=virtio,bridge%3Dvmbr0&ostype=l26&scsi0=shared:1,format%3Dqcow2",
		"POST /nodes/pve1/qemu/8000/template",
	}
	on2     = "POST /nodes/pve1/qemu/8000/clone?newid=8001&name=on2&target=pve2"
	on2Runs = "POST /nodes/pve2/qemu/8001/status/start"
	raced   = "POST /nodes/pve2/qemu?vmid=8050&name=race-pve2&memory=64"
	onPve3  = "POST /nodes/pve3/qemu?vmid=8100"
)

// linked makes linked clones of the template.
func linked(ids ...int) []string {
	var all []string
	for _, id := range ids {
		all = append(all, fmt.Sprintf("POST /nodes/pve1/qemu/9000/clone?newid=%d&name=par-%d", id, id))
	}
	return all
}

func inOrder(parts ...any) []string {
	var all []string
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			all = append(all, part)
		case []string:
			all = append(all, part...)
		}
	}
	return all
}

// settled lets every list be reported anew.
func settled(p *player) { p.c.Advance(25 * time.Second) }

// rebuilt is the cluster of three after its own group.
var rebuilt = inOrder(tmpl, tmplIsOne, upper, autoscaler, sharedDir, loc2, sharedTmpl, on2, on2Runs, raced)

// goesWrong puts in a fault, as a line describes it.
func goesWrong(line string) func(p *player) {
	return func(p *player) {
		faults, err := faults.Parse(line)
		if err != nil {
			p.Fatal(err)
		}
		for _, f := range faults {
			if err := p.c.Inject(f); err != nil {
				p.Fatal(err)
			}
		}
	}
}

var scenes = map[string]scene{
	"auth":             {before: inOrder(tmpl, tmplRuns)},
	"users/tokens/acl": {before: inOrder(tmpl, tmplRuns)},
	"routing":          {before: inOrder(tmpl, tmplRuns)},
	"nextid":           {before: inOrder(tmpl, tmplRuns)},
	"create":           {before: inOrder(tmpl, tmplRuns), then: settled},
	"config": {before: inOrder(tmpl, tmplRuns,
		"POST /nodes/pve1/qemu?vmid=201&name="+strings.Repeat("a", 64))},
	"power":      {before: inOrder(tmpl, tmplRuns, upper, upperCopy, upperRuns), then: settled},
	"agent":      {before: inOrder(tmpl, tmplRuns, upper, upperCopy), then: deaf(9000)},
	"clone":      {before: inOrder(tmpl, tmplRuns, upper, upperCopy, upperRuns), then: settled},
	"delete":     {before: inOrder(tmpl, tmplIsOne, upper, upperRuns, workers, linked(320, 330), lin1), then: settled},
	"full clone": {before: inOrder(tmpl, tmplIsOne, upper, upperCopy, upperRuns, workers, linked(320, 321, 322, 323, 330)), then: settled},
	"tasks": {
		before: inOrder(autoscaler, tmpl, tmplRuns, upper, upperCopy, upperRuns),
		after:  []string{"clone", "delete", "full clone"},
	},
	"resources":           {before: inOrder(tmpl, tmplIsOne, upper, upperCopy, upperRuns, workers, linked(320, 321, 322, 323, 330), full1, full1Runs), then: settled},
	"storage":             {before: inOrder(tmpl, tmplIsOne, full1, full1Runs), then: settled},
	"pools":               {before: inOrder(tmpl, tmplIsOne, workers, full1, full1Runs), then: settled},
	"disk/snapshot/other": {before: inOrder(tmpl, tmplIsOne, full1, full1Runs), then: settled},
	"cluster":             {before: inOrder(tmpl, tmplIsOne, upper, upperRuns, full1), then: settled},
	"misc":                {before: inOrder(tmpl, tmplIsOne, full1, full1Runs)},
	"disk/snapshot":       {before: inOrder(tmpl, tmplIsOne, upper, upperRuns, linked(320, 321, 322, 323, 330), full1, disk7), then: settled},
	"ha": {before: inOrder(tmpl, tmplIsOne, upper, upperCopy, upperRuns, linked(320, 321, 322, 323, 330), full1,
		"POST /nodes/pve1/qemu/9000/clone?newid=315&full=1&name=Copy-of-VM-full-2",
		"PUT /nodes/pve1/qemu/315/resize?disk=scsi0&size=2G",
		"POST /nodes/pve1/qemu/9000/clone?newid=314&full=1&name=renamed",
		"PUT /nodes/pve1/qemu/314/config?tags=x",
		"PUT /nodes/pve1/qemu/314/resize?disk=scsi0&size=2G"), then: settled},
	"cluster3":      {hosts: 3, before: inOrder(tmpl, tmplIsOne, upper, autoscaler), then: settled},
	"proxied calls": {hosts: 3, before: rebuilt, then: settled},
	"node failure: pve3 link down": {hosts: 3, before: inOrder(rebuilt, onPve3), then: func(p *player) {
		settled(p)
		goesWrong("cut pve3")(p)
	}},
	"minority side (pve3 isolated)": {hosts: 3, entry: "pve3", before: inOrder(rebuilt, onPve3), then: func(p *player) {
		settled(p)
		goesWrong("cut pve3")(p)
		p.c.Advance(40 * time.Second)
	}},
	"recovery": {hosts: 3, before: inOrder(rebuilt, onPve3), then: func(p *player) {
		settled(p)
		goesWrong("cut pve3")(p)
		p.c.Advance(90 * time.Second)
		p.c.Heal()
	}},
	"quorum lost on the entry node": {hosts: 3, before: inOrder(rebuilt, onPve3), then: func(p *player) {
		settled(p)
		goesWrong("cut pve3")(p)
		p.c.Advance(40 * time.Second)
		p.orders("POST /nodes/pve1/qemu/8000/clone?newid=8060&target=pve3")
		p.c.Heal() // and before pve3 has reported what it has, the next link breaks
		goesWrong("cut pve1")(p)
	}},
	"minimal privileges": {hosts: 3, before: inOrder(rebuilt, "POST /pools?poolid=plim"), then: settled},
	"own-task visibility": {hosts: 3, before: inOrder(rebuilt, "POST /pools?poolid=plim", mayClone("users", "auto@pve"), mayClone("tokens", "auto@pve!t1")),
		then: settled},
	"worker starvation": {hosts: 3, before: rebuilt, then: settled},
	"more":              {hosts: 3, before: rebuilt, then: settled},
	"json bodies": {hosts: 3, before: inOrder(rebuilt, "POST /nodes/pve1/qemu/8000/clone?newid=8310&full=1&name=ci&description=d1"),
		then: settled},
	"transport": {},
}

const lin1 = "POST /nodes/pve1/qemu/9000/clone?newid=310&name=lin-1&description=d&pool=workers"

// deaf keeps a guest's agent from ever answering.
func deaf(id int) func(p *player) {
	return func(p *player) {
		settled(p)
		p.c.With(func() {
			if m := p.c.VMs[id]; m != nil {
				m.Agent = false
			}
		})
	}
}

// mayClone grants what it takes to clone the shared template into the pool plim. In the recording
// that was all that the token had, so the auditor's role goes.
func mayClone(key, who string) []string {
	grant := func(path, role string) string {
		return fmt.Sprintf("PUT /access/acl?path=%s&roles=%s&%s=%s", path, role, key, who)
	}
	return []string{
		fmt.Sprintf("PUT /access/acl?path=/&roles=PVEAuditor&delete=1&%s=%s", key, who),
		grant("/vms/8000", "PVEVMAdmin"), grant("/vms/8200", "PVEVMAdmin"), grant("/vms/8201", "PVEVMAdmin"),
		grant("/pool/plim", "PVEVMAdmin"), grant("/storage/shared", "PVEDatastoreUser"),
		grant("/sdn/zones/localnetwork/vmbr0", "PVESDNUser"),
	}
}

// fix puts right, before a record is replayed, what the recording leaves out: requests whose
// answers were not kept, and what the test bed and not the server did.
type fix struct {
	why string
	do  func(p *player)
}

var autoToken = "auto@pve!t1"

var fixes = map[int]fix{
	261: {
		"the test bed's qemu-img could not copy, so the clone of 312 failed; here somebody stops it",
		func(p *player) { p.ask("root@pam!t1", "DELETE /nodes/pve1/tasks/"+p.ours[p.line(256)]) },
	},
	263: {"four clones were ordered at once", func(p *player) {
		answers := p.together(linked(323, 322, 320, 321)...)
		for i, line := range []int{263, 265, 264, 266} {
			p.ours[p.all[line].UPID] = upidOf(answers[i].response)
		}
	}},
	267: {"three clones to one id were ordered at once", func(p *player) {
		answers := p.together(linked(330)[0], linked(330)[0], linked(330)[0])
		for i, line := range []int{267, 268, 269} {
			p.ours[p.all[line].UPID] = upidOf(answers[i].response)
		}
	}},
	329: {"the recorder waited until the list told of the machine", func(p *player) { p.until("qemu/401", "stopped") }},
	331: {"the recorder waited until the list told that the machine runs", func(p *player) { p.until("qemu/401", "running") }},
	340: {"the test bed's bridge was in no file that Proxmox VE reads", func(p *player) {
		p.c.With(func() { p.c.Node("pve1").Bridges = nil })
	}},
	391: {"the test bed's QEMU did not resize the disk of a machine that runs, and no end of a task was kept", func(p *player) {
		p.c.Advance(2 * time.Second)
		p.c.With(func() {
			m := p.c.VMs[312]
			if m == nil {
				return
			}
			m.Conf["scsi0"] = strings.ReplaceAll(m.Conf["scsi0"], "size=2G", "size=1G")
		})
	}},
	392: {"the test bed's QEMU did not know how to snapshot, and left the lock of it", goesWrong("kill task snapshot times=1")},
	463: {"the machine was stopped", func(p *player) { p.ordered("root@pam!t1", "POST /nodes/pve1/qemu/312/status/stop", 463) }},
	550: {"the list had told of the machine by then, 9 s after it was made", func(p *player) { p.until("qemu/402", "stopped") }},
	573: {"the clone was over when this was asked: 0.3 s, and the records do not tell when", func(p *player) {
		p.await(p.ours[p.line(572)])
	}},
	590: {"the id was given to two hosts at once, and this one had it; what was made before had been told everybody", func(p *player) {
		settled(p)
		p.ordered("root@pam!t1", raced, 590)
	}},
	649: {"the token had the rights that it needed, but the machine was not there", func(p *player) {
		p.orders(inOrder(mayClone("users", "auto@pve"), mayClone("tokens", autoToken))...)
		p.ordered(autoToken, "PUT /nodes/pve1/qemu/8200/resize?disk=scsi0&size=%2B1G", 649)
	}},
	650: {"see above", func(p *player) { p.ordered(autoToken, "POST /nodes/pve1/qemu/8200/status/start", 650) }},
	651: {"see above", func(p *player) { p.ordered(autoToken, "POST /nodes/pve1/qemu/8200/status/stop", 651) }},
	652: {"the token had tried to work on a machine that was not there", func(p *player) {
		p.await(p.orderAs(autoToken, "PUT /nodes/pve1/qemu/8200/resize?disk=scsi0&size=%2B1G"))
		p.await(p.orderAs(autoToken, "POST /nodes/pve1/qemu/8200/status/start"))
		p.await(p.orderAs(autoToken, "POST /nodes/pve1/qemu/8200/status/stop"))
	}},
	658: {"the requests of the second trial were not kept", func(p *player) {
		p.ordered(autoToken, "POST /nodes/pve1/qemu/8000/clone?newid=8200&pool=plim", 658)
	}},
	659: {"see above", func(p *player) {
		p.ordered(autoToken, "POST /nodes/pve1/qemu/8000/clone?newid=8201&pool=plim&full=1", 659)
	}},
	660: {"see above", func(p *player) {
		p.ordered(autoToken, "PUT /nodes/pve1/qemu/8200/resize?disk=scsi0&size=%2B1G", 660)
	}},
	662: {"see above", func(p *player) { p.ordered(autoToken, "POST /nodes/pve1/qemu/8200/status/stop", 662) }},
	663: {"see above", func(p *player) { p.ordered(autoToken, "DELETE /nodes/pve1/qemu/8200?purge=1", 663) }},
	664: {"see above", func(p *player) { p.ordered(autoToken, "DELETE /nodes/pve1/qemu/8201", 664) }},
	665: {"the clone of the first trial was removed", func(p *player) { p.orders("DELETE /nodes/pve1/qemu/8202") }},
	671: {"the machine was cloned", func(p *player) {
		p.ordered("root@pam!t1", "POST /nodes/pve1/qemu/8000/clone?newid=8301&name=agent-vm", 671)
	}},
	680: {"the clone was ordered again", func(p *player) {
		p.ordered("root@pam!t1", "POST /nodes/pve1/qemu/8000/clone?newid=8001", 680)
	}},
}

// line is what the server answered in a record that has nothing but a text: a UPID.
func (p *player) line(n int) string {
	var body struct{ Data string }
	if json.Unmarshal(p.all[n].Response.Body, &body) != nil {
		p.Fatalf("record %d answers no text", n)
	}
	return body.Data
}

func upidOf(r *response) string {
	var body struct{ Data string }
	if r == nil || json.Unmarshal(r.body, &body) != nil {
		return ""
	}
	return body.Data
}

// until lets time pass until the list of resources says of one that it has a status.
func (p *player) until(id, status string) {
	for range 300 {
		body, _ := p.ask("root@pam!t1", "GET /cluster/resources").data().(map[string]any)
		list, _ := body["data"].([]any)
		for _, item := range list {
			item, _ := item.(map[string]any)
			if item["id"] == id && item["status"] == status {
				return
			}
		}
		p.c.Advance(100 * time.Millisecond)
	}
	p.Errorf("the list of resources never says that %s is %s", id, status)
}

// uncut puts back what the recording cut off a request, or hid in it.
var uncut = map[int]func(p *player, req *http.Request){
	22: func(_ *player, req *http.Request) { // a forged ticket
		req.Header.Set("Cookie", "PVEAuthCookie=PVE:root@pam:6B00A80F::Zm9yZ2Vk")
	},
	170: func(p *player, req *http.Request) { // by root's ticket
		req.Header.Set("Cookie", "PVEAuthCookie="+p.rootTicket())
		req.Header.Set("CSRFPreventionToken", p.csrf)
		req.Header.Del("Authorization")
	},
	714: func(_ *player, req *http.Request) {
		setBody(req, `{"poolid":"big","comment":"`+strings.Repeat("x", 70000)+`"}`)
	},
	715: func(_ *player, req *http.Request) {
		setBody(req, `{"poolid":"big2","comment":"`+strings.Repeat("x", 600000)+`"}`)
	},
	716: func(_ *player, req *http.Request) { req.Header.Set("X-Long", strings.Repeat("x", 9000)) },
}

func setBody(req *http.Request, body string) {
	with, err := http.NewRequest(req.Method, req.URL.String(), strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Body, req.GetBody, req.ContentLength = with.Body, with.GetBody, with.ContentLength
}

// exception excuses one difference, or all in a part of an answer.
type exception struct {
	line int
	part string
	why  string
}

var exceptions = []exception{
	{170, "answer", "one request in 3,300 was dropped without an answer, for no reason that was ever found"},
}

// observation compares what was seen by the way.
func (p *player) observation(r *reference.Record) {
	p.count.seen++
	var d differences
	switch {
	case r.What != "":
		p.waitFor(&d, r)
	case r.Results != nil:
		p.crowd(&d, r)
	default:
		p.count.seen--
		return // of sockets: see the tests of the server
	}
	p.report(r, d, &answered{})
}

// waitFor lets time pass until something has happened that a call waited for.
func (p *player) waitFor(d *differences, r *reference.Record) {
	conditions := map[string]func() bool{
		"pve3 offline in /nodes": func() bool { return strings.Contains(p.said("GET /nodes"), `"status":"offline"`) },
		"pve3 online again":      func() bool { return !strings.Contains(p.said("GET /nodes"), `"status":"offline"`) },
		"not quorate":            func() bool { return strings.Contains(p.said("GET /cluster/status"), `"quorate":0`) },
		"quorate again":          func() bool { return strings.Contains(p.said("GET /cluster/status"), `"quorate":1`) },
	}
	holds := conditions[r.What]
	if holds == nil {
		d.add("observation", "nobody knows when it is true that %s", r.What)
		return
	}
	if r.What == "quorate again" {
		p.c.Heal()
	}
	began := p.c.Now()
	for !holds() && p.c.Now().Sub(began) < time.Minute {
		p.c.Advance(100 * time.Millisecond)
	}
	if took := p.c.Now().Sub(began).Seconds(); math.Abs(took-r.Secs) > 2 {
		d.add("time", "it took %.1f s until %s, recorded %.1f s", took, r.What, r.Secs)
	}
}

func (p *player) said(line string) string { return string(p.ask("root@pam!t1", line).body) }

// crowd makes many calls at once, and compares how many of them ended how, and what that did to
// others: calls that pveproxy answers itself are as quick as ever, and those of pvedaemon wait in
// one line with the crowd, where no one knows when they come to their turn.
func (p *player) crowd(d *differences, r *reference.Record) {
	const vm = "GET /nodes/pve1/qemu/8301/"
	lines := []string{vm + "config", "GET /version", vm + "status/current"}
	for range r.Results {
		lines = append(lines, vm+"agent/network-get-interfaces")
	}
	answers := p.together(lines...)
	others, answers := answers[:3], answers[3:]
	want, got := map[string]int{}, map[string]int{}
	var longest, last time.Duration
	for i, result := range r.Results {
		want[fmt.Sprint(result[0], " ", result[1])]++
		seconds, _ := result[2].(json.Number).Float64()
		longest = max(longest, time.Duration(seconds*float64(time.Second)))
		if a := answers[i]; a.response != nil {
			got[fmt.Sprint(a.status, " ", a.reason)]++
			last = max(last, a.took)
		}
	}
	if fmt.Sprint(want) != fmt.Sprint(got) {
		d.add("answers", "%v, recorded %v", got, want)
	}
	// The real processes shared their work out unevenly: a round of waiting more or less, or a
	// fifth.
	if (last - longest).Abs() > max(world.WaitAgent+time.Second, longest/5) {
		d.add("time", "the last was answered after %s, recorded %s", last, longest)
	}
	for i, name := range []string{"config_get", "version", "status_current"} {
		limit := 1500 * time.Millisecond
		if i == 2 {
			limit = longest
		}
		if others[i].response == nil || others[i].status != 200 || others[i].took > limit {
			d.add(name, "%+v, recorded after %.1f s", others[i], r.Meanwhile[name])
		}
	}
}
