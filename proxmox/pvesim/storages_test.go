package pvesim

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// upload sends a file to a storage, through the host that is asked.
func (l *lab) upload(node, storage, name, content string, fields ...string) said {
	l.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	for _, field := range append([]string{"content=iso"}, fields...) {
		key, value, _ := strings.Cut(field, "=")
		if err := w.WriteField(key, value); err != nil {
			l.Fatal(err)
		}
	}
	part, err := w.CreateFormFile("filename", name)
	if err != nil {
		l.Fatal(err)
	}
	fmt.Fprint(part, content)
	if err := w.Close(); err != nil {
		l.Fatal(err)
	}
	req, err := http.NewRequest("POST", "https://"+l.entry+":8006/api2/json/nodes/"+node+"/storage/"+storage+"/upload", &body)
	if err != nil {
		l.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+l.root)
	req.Header.Set("Content-Type", w.FormDataContentType())
	return l.send(req)
}

func TestUploadedDiscsAreWhereTheyWereSent(t *testing.T) {
	l := newLab(t, nil)
	s := l.upload("pve2", "local", "seed 1.iso", "the disc")
	upid, _ := s.data.(string)
	if s.status != "200 OK" || !strings.HasPrefix(upid, "UPID:pve1:") || !strings.Contains(upid, ":imgcopy::root@pam!t1:") {
		t.Fatalf("got %s %v: the task is of the host that was asked", s.status, s.data)
	}
	if got := l.endOf(upid); got != "OK" {
		t.Fatalf("it ended with %s", got)
	}
	const list, id = "GET /nodes/%s/storage/local/content?content=iso", "local:iso/seed_1.iso"
	if e := l.find(fmt.Sprintf(list, "pve1"), id); e != nil {
		t.Errorf("on the host that was asked lies %v", e)
	}
	if e := l.find(fmt.Sprintf(list, "pve2"), id); e["size"] != 8.0 || e["format"] != "iso" {
		t.Errorf("on the host that was named lies %v", e)
	}
	l.must("PUT /nodes/pve1/qemu/201/config ide2=none,media=cdrom")
	if got := l.ended("DELETE /nodes/pve2/storage/local/content/" + id); got != "OK" {
		t.Errorf("removing it ended with %s", got)
	}
	if data := l.must("DELETE /nodes/pve2/storage/local/content/" + id + "?delay=5"); data != nil {
		t.Errorf("removing it again, and waiting for it, answers %v", data)
	}
}

func TestUploadsAreRefusedWithTheServersWords(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) {
		cfg.Storages = append(cfg.Storages, world.Storage{Name: "thin", Type: "lvmthin", Total: 1 << 40, Content: []string{"images"}},
			world.Storage{Name: "disks", Type: "dir", Total: 1 << 40, Content: []string{"images"}})
	})
	sum := "checksum=00"
	for _, c := range []struct{ storage, name, want string }{
		{"nostore", "a.iso", "500 storage 'nostore' does not exist"},
		{"thin", "a.iso", "500 can't upload to storage type 'lvmthin'"},
		{"disks", "a.iso", "500 storage 'disks' does not support 'iso' content"},
		{"local", "a.txt", "400 Parameter verification failed."},
		{"local", "A.IMG", "200 OK"},
	} {
		if s := l.upload("pve1", c.storage, c.name, "x"); s.status != c.want {
			t.Errorf("%s on %s: %s, want %s", c.name, c.storage, s.status, c.want)
		}
	}
	if s := l.upload("pve1", "local", "a.iso", "x", sum); s.status != "400 Parameter verification failed." {
		t.Errorf("a sum of nothing: %s", s.status)
	}
	upid, _ := l.upload("pve1", "local", "a.iso", "x", sum, "checksum-algorithm=md5").data.(string)
	if got := l.endOf(upid); got != "checksum mismatch: got '9dd4e461268c8034f5c8564e155c67a6' != expect '00'" {
		t.Errorf("a wrong sum: %s", got)
	}
	l.inject("full storage local")
	upid, _ = l.upload("pve1", "local", "a.iso", "x").data.(string)
	if got := l.endOf(upid); got != "import failed: cp: error writing '/var/lib/vz/template/iso/a.iso': No space left on device" {
		t.Errorf("no room: %s", got)
	}
	l.Heal()
	l.inject("cut pve2 from pve1")
	if s := l.upload("pve2", "local", "a.iso", "x"); !strings.HasPrefix(s.status, "500 can't activate storage 'local' on node 'pve2'") {
		t.Errorf("to a host that cannot be reached: %s", s.status)
	}
}

func TestStoragesAreListedAsFarAsTheyAreOfUse(t *testing.T) {
	l := newLab(t, func(cfg *world.Config) {
		cfg.Storages = append(cfg.Storages, world.Storage{Name: "two", Type: "dir", Hosts: []string{"pve2"}, Total: 1 << 40, Content: []string{"backup"}})
	})
	for _, c := range []struct{ path, want string }{
		{"/nodes/pve1/storage", "local shared"},
		{"/nodes/pve2/storage", "local shared two"},
		{"/nodes/pve2/storage?content=backup,rootdir", "two"},
		{"/nodes/pve2/storage?content=snippets", "shared"},
		{"/nodes/pve2/storage?storage=two", "two"},
		{"/nodes/pve2/storage?target=pve1", "shared"},
		{"/nodes/pve2/storage?target=pve2", "local shared two"},
	} {
		var got []string
		for _, e := range l.must("GET " + c.path).([]any) {
			got = append(got, e.(map[string]any)["storage"].(string))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	for _, path := range []string{"/nodes/pve1/storage?storage=two", "/nodes/pve1/storage/two/status"} {
		if s := l.tell("GET " + path); s.status != "400 Parameter verification failed." {
			t.Errorf("%s: %s", path, s.status)
		}
	}
	l.must("PUT /storage/two disable=1")
	if e := l.find("GET /nodes/pve2/storage", "two"); e["enabled"] != 0.0 || e["active"] != 0.0 {
		t.Errorf("disabled, it is listed as %v", e)
	}
	if s := l.tell("GET /nodes/pve2/storage/two/content"); s.status != "500 storage 'two' is disabled" {
		t.Errorf("its content: %s", s.status)
	}
	if all := l.must("GET /nodes/pve2/storage?enabled=1").([]any); len(all) != 2 {
		t.Errorf("enabled are %v", all)
	}
	l.must("DELETE /storage/two")
	if s := l.tell("GET /storage/two"); s.status != "500 storage 'two' does not exist" {
		t.Errorf("removed, it is %s", s.status)
	}
}

// Who may remove discs, which is more than it takes to upload them, is what autoscalers get wrong.
func TestRemovingADiscTakesMoreThanUploadingIt(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /access/users userid=auto@pve")
	l.must("POST /access/roles roleid=Up privs=Datastore.AllocateTemplate,Datastore.AllocateSpace,Datastore.Audit")
	l.must("PUT /access/acl path=/storage/local roles=Up users=auto@pve")
	root := l.root
	l.root = l.Token("auto@pve", "t1", false)
	s := l.upload("pve1", "local", "a.iso", "x")
	if got := l.endOf(s.data.(string)); got != "OK" {
		t.Fatal(got)
	}
	if s := l.tell("DELETE /nodes/pve1/storage/local/content/local:iso/a.iso"); s.status != "403 Permission check failed (/storage/local, Datastore.Allocate)" {
		t.Errorf("removing it: %s", s.status)
	}
	if all := l.must("GET /nodes/pve1/storage/local/content").([]any); len(all) != 1 {
		t.Errorf("it sees %v", all)
	}
	l.root = root
	l.ended("DELETE /nodes/pve1/storage/local/content/local:iso/a.iso")
}

func TestVolumesAreMadeByCall(t *testing.T) {
	l := newLab(t, nil)
	if got := l.must("POST /nodes/pve1/storage/local/content filename=vm-201-disk-7.qcow2 size=2G vmid=201"); got != "local:201/vm-201-disk-7.qcow2" {
		t.Errorf("it is %v", got)
	}
	if v := l.must("GET /nodes/pve1/storage/local/content/local:201/vm-201-disk-7.qcow2").(map[string]any); v["size"] != float64(2<<30) || v["format"] != "qcow2" {
		t.Errorf("it is told as %v", v)
	}
	for line, want := range map[string]string{
		"POST /nodes/pve1/storage/local/content filename=other.qcow2 size=1G vmid=201":                   "500 illegal name 'other.qcow2' - should be 'vm-201-*'",
		"POST /nodes/pve1/storage/local/content filename=vm-201-disk-7.qcow2 size=1G vmid=201":           "500 disk image '/var/lib/vz/images/201/vm-201-disk-7.qcow2' already exists",
		"POST /nodes/pve1/storage/local/content filename=vm-201-disk-8.raw format=qcow2 size=1 vmid=201": "400 Parameter verification failed.",
		"POST /nodes/pve1/storage/local/content filename=vm-201-disk-9.raw size=200G vmid=201":           "500 unable to create image: qemu-img: /var/lib/vz/images/201/vm-201-disk-9.raw: Could not resize file: No space left on device",
		"GET /nodes/pve1/storage/local/content/other:iso/a.iso":                                          "400 Parameter verification failed.",
		"GET /nodes/pve1/storage/local/content/local:nothing":                                            "500 unable to parse directory volume name 'nothing'",
	} {
		if s := l.tell(line); s.status != want {
			t.Errorf("%s: %s, want %s", line, s.status, want)
		}
	}
}

func TestCallsAreRemembered(t *testing.T) {
	l := newLab(t, nil)
	var told []Call
	l.OnCall(func(c Call) { told = append(told, c) })
	l.must(clone + "400")
	l.entry = "pve2"
	l.inject("drop GET /version")
	l.tell("GET /version?x=1")
	l.root = "nobody@pam!x=y"
	l.tell("GET /nodes")
	all := l.Calls()
	if len(all) != 3 || len(told) != 3 {
		t.Fatalf("%d calls are remembered, and %d were told of", len(all), len(told))
	}
	for i, want := range []Call{
		{Host: "pve1", User: "root@pam!t1", Method: "POST", Path: "/nodes/pve1/qemu/9000/clone", Status: 200, Reason: "OK", Task: all[0].Task},
		{Host: "pve2", Method: "GET", Path: "/version", Query: "x=1", Reason: "connection broke"},
		{Host: "pve2", Method: "GET", Path: "/nodes", Status: 401, Reason: "Authentication failed!", Took: 3 * time.Second},
	} {
		want.At = all[i].At
		if all[i] != want || told[i] != want {
			t.Errorf("call %d is %+v, want %+v", i, all[i], want)
		}
	}
	if !strings.HasPrefix(all[0].Task, "UPID:pve1:") {
		t.Errorf("the clone's task is %q", all[0].Task)
	}
}

func TestStoragesAreChangedByCall(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /storage storage=more type=dir path=/x content=images,iso nodes=pve1,pve2")
	l.must("PUT /storage/more content=iso shared=1 priority=7 delete=nodes")
	want := map[string]any{"storage": "more", "type": "dir", "path": "/x", "content": "iso", "shared": 1.0, "priority": 7.0}
	got := l.must("GET /storage/more").(map[string]any)
	digest := got["digest"]
	delete(got, "digest")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	l.must("PUT /storage/more delete=content,shared digest=" + digest.(string))
	if got := l.must("GET /storage/more").(map[string]any); got["content"] != "images" || got["shared"] != nil {
		t.Errorf("with its defaults it is %v", got)
	}
	for line, want := range map[string]string{
		"PUT /storage/more priority=1 digest=0":                         "500 update storage failed: detected modified configuration - file changed by other user? Try again.",
		"PUT /storage/none priority=1":                                  "500 update storage failed: storage 'none' does not exist",
		"DELETE /storage/none":                                          "500 delete storage failed: storage 'none' does not exist",
		"POST /storage storage=more type=dir path=/x":                   "500 create storage failed: storage ID 'more' already defined",
		"POST /storage storage=other type=dir":                          "400 Parameter verification failed.",
		"PUT /nodes/pve1/storage/local/content/local:iso/a.iso notes=x": "500 volume 'local:iso/a.iso' does not exist",
	} {
		if s := l.tell(line); s.status != want {
			t.Errorf("%s: %s, want %s", line, s.status, want)
		}
	}
	if e := l.find("GET /nodes/pve1/storage?format=1", "local"); fmt.Sprint(e["formats"]) != "map[default:raw supported:[qcow2 raw vmdk]]" {
		t.Errorf("formats are %v", e["formats"])
	}
	if s := l.tell("POST /nodes/pve1/storage/local/download-url content=iso filename=x.iso url=https://example.org/x.iso"); s.status != "200 OK" {
		t.Errorf("a download: %s", s.status)
	} else if got := l.endOf(s.data.(string)); !strings.HasPrefix(got, "download failed: ") {
		t.Errorf("it ended with %s", got)
	}
}

func TestDisksShowThemselvesToThoseWhoMayChangeTheirMachines(t *testing.T) {
	l := newLab(t, nil)
	l.must("POST /access/users userid=auto@pve")
	l.must("PUT /access/acl path=/storage/shared roles=PVEDatastoreUser users=auto@pve")
	l.must("PUT /access/acl path=/vms/201 roles=PVEVMAdmin users=auto@pve")
	l.root = l.Token("auto@pve", "t1", false)
	if got := names(l.must("GET /nodes/pve1/storage/shared/content"), "vmid"); got != "201" {
		t.Errorf("disks of %s are shown", got)
	}
	const disk = "GET /nodes/pve1/storage/shared/content/shared:"
	if s := l.tell(disk + "201/vm-201-disk-0.qcow2"); s.status != "200 OK" {
		t.Errorf("its own: %s", s.status)
	}
	if s := l.tell(disk + "301/vm-301-disk-0.qcow2"); s.status != "403 Permission check failed (/vms/301, VM.Config.Disk)" {
		t.Errorf("another's: %s", s.status)
	}
	if s := l.tell(disk + "201/vm-201-disk-9.qcow2"); s.status != "500 volume_size_info on 'shared:201/vm-201-disk-9.qcow2' failed - no format" {
		t.Errorf("one that is not there: %s", s.status)
	}
}
