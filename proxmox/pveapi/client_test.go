package pveapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/reference"
)

func pointer[T any](v T) *T { return &v }

var bench = Account{User: "bench@pve", Token: "t1"}

// everyCall is each of the client's methods, with every option that it has.
var everyCall = map[string][]func(context.Context, *Client) error{
	"Version":       {func(ctx context.Context, c *Client) error { _, err := c.Version(ctx); return err }},
	"Probe":         {func(ctx context.Context, c *Client) error { return c.Probe(ctx)[0].Err }},
	"ClusterStatus": {func(ctx context.Context, c *Client) error { _, err := c.ClusterStatus(ctx); return err }},
	"Resources":     {func(ctx context.Context, c *Client) error { _, err := c.Resources(ctx); return err }},
	"VMIDFree":      {func(ctx context.Context, c *Client) error { _, err := c.VMIDFree(ctx, 310); return err }},
	"VMIDGone":      {func(ctx context.Context, c *Client) error { _, err := c.VMIDGone(ctx, 310); return err }},
	"Permissions":   {func(ctx context.Context, c *Client) error { _, err := c.Access().Permissions(ctx); return err }},
	"PermissionsOn": {func(ctx context.Context, c *Client) error {
		_, err := c.Access().PermissionsOn(ctx, "/vms/9000")
		return err
	}},
	"TagRules":         {func(ctx context.Context, c *Client) error { _, err := c.TagRules(ctx); return err }},
	"CertificateOwner": {func(ctx context.Context, c *Client) error { _, err := c.CertificateOwner(ctx, "AA:BB"); return err }},
	"HostTime":         {func(ctx context.Context, c *Client) error { _, err := c.HostTime(ctx, "pve1"); return err }},
	"Roles":            {func(ctx context.Context, c *Client) error { _, err := c.Access().Roles(ctx); return err }},
	"Pool":             {func(ctx context.Context, c *Client) error { _, err := c.Pool(ctx, "workers/sub"); return err }},
	"Make": {func(ctx context.Context, c *Client) error {
		_, err := c.VM("pve1", 310).Make(ctx, map[string]string{
			"name": "t", "scsi0": "nfs:0,import-from=local:import/debian.qcow2", "scsihw": "virtio-scsi-single", "serial0": "socket", "agent": "1", "pool": "bench",
		})
		return err
	}},
	"MakeTemplate": {func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).MakeTemplate(ctx); return err }},
	"MakePool": {
		func(ctx context.Context, c *Client) error { return c.MakePool(ctx, "bench", "") },
		func(ctx context.Context, c *Client) error { return c.MakePool(ctx, "bench", "of a test bed") },
	},
	"RemovePool":  {func(ctx context.Context, c *Client) error { return c.RemovePool(ctx, "bench") }},
	"TokenExists": {func(ctx context.Context, c *Client) error { _, err := c.Access().TokenExists(ctx, bench); return err }},
	"MakeToken": {func(ctx context.Context, c *Client) error {
		_, err := c.Access().MakeToken(ctx, bench, "of a test bed")
		return err
	}},
	"RemoveToken": {func(ctx context.Context, c *Client) error { return c.Access().RemoveToken(ctx, bench) }},
	"MakeRole": {func(ctx context.Context, c *Client) error {
		return c.Access().MakeRole(ctx, "Bench", []string{"VM.Audit", "Pool.Audit"})
	}},
	"RemoveRole": {func(ctx context.Context, c *Client) error { return c.Access().RemoveRole(ctx, "Bench") }},
	"Grant": {func(ctx context.Context, c *Client) error {
		return c.Access().Grant(ctx, "/pool/bench", "Bench", bench, true)
	}},
	"Grants":   {func(ctx context.Context, c *Client) error { _, err := c.Access().Grants(ctx); return err }},
	"Networks": {func(ctx context.Context, c *Client) error { _, err := c.Networks(ctx, "pve1"); return err }},
	"Zones":    {func(ctx context.Context, c *Client) error { _, err := c.Zones(ctx); return err }},
	"Storages": {func(ctx context.Context, c *Client) error { _, err := c.Storages(ctx, "pve1"); return err }},
	"Status":   {func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Status(ctx); return err }},
	"Config":   {func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Config(ctx); return err }},
	"AgentInterfaces": {func(ctx context.Context, c *Client) error {
		_, err := c.VM("pve1", 310).AgentInterfaces(ctx)
		return err
	}},
	"Start":    {func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Start(ctx); return err }},
	"Task":     {func(ctx context.Context, c *Client) error { _, err := c.Task(ctx, upidClone); return err }},
	"WaitTask": {func(ctx context.Context, c *Client) error { _, err := c.WaitTask(ctx, upidClone); return err }},
	"StopTask": {func(ctx context.Context, c *Client) error { return c.StopTask(ctx, upidClone) }},
	"TaskLog":  {func(ctx context.Context, c *Client) error { _, err := c.TaskLog(ctx, upidClone, 5); return err }},
	"Tasks": {
		func(ctx context.Context, c *Client) error {
			_, err := c.Tasks(ctx, "pve1", time.Unix(1795205009, 5), 310)
			return err
		},
		func(ctx context.Context, c *Client) error {
			_, err := c.Tasks(ctx, "pve1", time.Time{}, 310, 311)
			return err
		},
	},
	"FindClone": {func(ctx context.Context, c *Client) error {
		_, _, err := c.FindClone(ctx, "pve1", 9000, 310, time.Unix(1795205009, 5))
		return err
	}},
	"Volumes": {
		func(ctx context.Context, c *Client) error {
			_, err := c.Volumes(ctx, "pve1", "local", "", 0)
			return err
		},
		func(ctx context.Context, c *Client) error {
			_, err := c.Volumes(ctx, "pve1", "local-lvm", "iso", 310)
			return err
		},
	},
	"DeleteVolume": {func(ctx context.Context, c *Client) error {
		_, err := c.DeleteVolume(ctx, "pve1", "local", "local:iso/plimsoll-a.iso")
		return err
	}},
	"Upload": {func(ctx context.Context, c *Client) error {
		_, err := c.Upload(ctx, "pve1", "local", "plimsoll-a.iso", []byte("\x00\r\n--image"))
		return err
	}},
	"UploadImage": {func(ctx context.Context, c *Client) error {
		image := "QFI\xfb\r\n--image"
		sum := sha256.Sum256([]byte(image))
		_, err := c.UploadImage(ctx, "pve1", "local", "debian.qcow2", hex.EncodeToString(sum[:]), strings.NewReader(image), int64(len(image)))
		return err
	}},
	"Clone": {
		func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 9000).Clone(ctx, CloneOptions{NewID: 310})
			return err
		},
		func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 9000).Clone(ctx, CloneOptions{
				NewID: 310, Name: "w-1.example", Pool: "workers/sub", Description: "ü\n**why**", Storage: "fast",
				Target: "pve2", Format: "qcow2", Full: pointer(true),
			})
			return err
		},
		func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 9000).Clone(ctx, CloneOptions{NewID: 310, Full: pointer(false)})
			return err
		},
	},
	"SetConfig": {
		func(ctx context.Context, c *Client) error {
			return c.VM("pve1", 310).SetConfig(ctx, map[string]string{
				"cores": "2", "memory": "2048", "balloon": "0", "onboot": "0", "protection": "0", "agent": "1", "name": "w-1",
				"tags": "a;b", "description": "# note\n", "net0": "virtio=BC:24:11:0B:75:32,bridge=vmbr0,firewall=1",
				"ide2": "local:iso/plimsoll-a.iso,media=cdrom", "scsi1": "local:310/vm-310-disk-1.qcow2,size=1G",
				"ipconfig0": "ip=192.0.2.7/24,gw=192.0.2.1", "sshkeys": "ssh-ed25519%20AAAA%2Bb%2Fc%3D%20me%40here",
				"smbios1": "uuid=cae4fd3b-c444-4995-b1b0-8c841a92b0d9", "boot": "order=scsi0", "ciuser": "plimsoll",
			}, nil, "83d8b4df65f233c8abe283d45a0610c9afbf5a52")
		},
		func(ctx context.Context, c *Client) error {
			return c.VM("pve1", 310).SetConfig(ctx, nil, []string{"ide2", "hookscript"}, "")
		},
	},
	"Resize": {func(ctx context.Context, c *Client) error {
		_, err := c.VM("pve1", 310).Resize(ctx, "scsi0", 20*pricing.GiB)
		return err
	}},
	"Stop": {
		func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Stop(ctx, false); return err },
		func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Stop(ctx, true); return err },
	},
	"Shutdown": {
		func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 310).Shutdown(ctx, 0, false)
			return err
		},
		func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 310).Shutdown(ctx, 1500*time.Millisecond, true)
			return err
		},
	},
	"Destroy": {
		func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 310).Destroy(ctx, false)
			return err
		},
		func(ctx context.Context, c *Client) error { _, err := c.VM("pve1", 310).Destroy(ctx, true); return err },
	},
}

// goodAnswer is one that each call can read.
func goodAnswer(r *http.Request, _ string) reply {
	path := strings.TrimPrefix(r.URL.Path, apiRoot)
	switch {
	case r.Method == http.MethodPut && strings.HasSuffix(path, "/config"):
		return data("null")
	case r.Method == http.MethodPost && strings.Contains(path, "/token/"):
		return data(`{"full-tokenid":"bench@pve!t1","value":"s3cret"}`)
	case r.Method != http.MethodGet:
		return goodTask
	case path == "/version":
		return goodVersion
	case strings.HasPrefix(path, "/cluster/ha/"):
		return data("[]")
	case path == "/cluster/status":
		return data(`[{"type":"node","name":"pve1","online":1}]`)
	case path == "/cluster/options":
		return data(`{"user-tag-access":"user-allow=list,user-allow-list=a;b"}`)
	case strings.HasSuffix(path, "/time"):
		return data(`{"time":1795205009}`)
	case path == "/cluster/nextid":
		return data(`"` + r.URL.Query().Get("vmid") + `"`)
	case path == "/access/permissions":
		return data(`{"/vms/9000":{"VM.Clone":1}}`)
	case path == "/pools" && r.Method == http.MethodGet:
		return data(`[{"poolid":"workers/sub","members":[]}]`)
	case strings.HasSuffix(path, "/status") && strings.Contains(path, "/tasks/"):
		return task("OK")
	case strings.HasSuffix(path, "/config"), strings.HasSuffix(path, "/status/current"), strings.HasSuffix(path, "/status"):
		return data(`{"status":"running","digest":"1"}`)
	case strings.Contains(path, "/agent/"):
		return data(`{"result":[]}`)
	default:
		return data("[]")
	}
}

// asking names the methods of a client that ask the server something.
func asking() []string {
	var names []string
	client := reflect.TypeFor[*Client]()
	for m := range client.NumMethod() {
		method := client.Method(m)
		if method.Type.NumIn() > 1 && method.Type.In(1) == reflect.TypeFor[context.Context]() {
			names = append(names, method.Name)
		}
	}
	return names
}

func TestEveryRequestIsWhatTheServerTakes(t *testing.T) {
	schema, err := reference.Parse(shared(t, "api-schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range asking() {
		if len(everyCall[name]) == 0 {
			t.Errorf("%s is not in the table of calls", name)
		}
		for i, call := range everyCall[name] {
			c, _ := virtual(t, 1, goodAnswer, func(c *Connection) { c.Transport = strict(t, schema, c.Transport) })
			if err := call(t.Context(), c); err != nil {
				t.Errorf("%s %d: %v", name, i, err)
			}
		}
	}
}

// The same over TLS, where bodies and lengths are real.
func TestEveryRequestArrivesOverTheNetwork(t *testing.T) {
	h := newHost(t, goodAnswer)
	c := connected(t, []*host{h})
	for name, calls := range everyCall {
		for _, call := range calls {
			if err := call(t.Context(), c); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// What makes no sense is refused here, with what it must be, and not sent.
func TestCallsThatMakeNoSenseAreNotSent(t *testing.T) {
	for want, call := range map[string]func(context.Context, *Client) error{
		`GET /nodes/../network: node must be the name of a host, was ".."`: func(ctx context.Context, c *Client) error {
			_, err := c.Networks(ctx, "..")
			return err
		},
		`POST /nodes/pve1%2Fx/qemu/310/status/start: node must be the name of a host, was "pve1/x"`: func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1/x", 310).Start(ctx)
			return err
		},
		`DELETE /tasks: upid must be UPID:host:…:, was "clone"`: func(ctx context.Context, c *Client) error { return c.StopTask(ctx, "clone") },
		`DELETE /nodes/pve1/qemu/0: vmid must be 100 to 999999999, was 0`: func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 0).Destroy(ctx, true)
			return err
		},
		`GET /cluster/nextid: vmid must be 100 to 999999999, was 99`: func(ctx context.Context, c *Client) error {
			_, err := c.VMIDFree(ctx, 99)
			return err
		},
		`POST /nodes/pve1/qemu/9000/clone: newid must be 100 to 999999999, was 0`: func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 9000).Clone(ctx, CloneOptions{})
			return err
		},
		`PUT /nodes/pve1/qemu/310/config: there must be something to set or to delete`: func(ctx context.Context, c *Client) error {
			return c.VM("pve1", 310).SetConfig(ctx, nil, nil, "x")
		},
		`PUT /nodes/pve1/qemu/310/config: cores must not be set this way, or set and deleted at once`: func(ctx context.Context, c *Client) error {
			return c.VM("pve1", 310).SetConfig(ctx, map[string]string{"cores": "1"}, []string{"cores"}, "")
		},
		`PUT /nodes/pve1/qemu/310/config: digest must not be set this way, or set and deleted at once`: func(ctx context.Context, c *Client) error {
			return c.VM("pve1", 310).SetConfig(ctx, map[string]string{"digest": "1"}, nil, "")
		},
		`PUT /nodes/pve1/qemu/310/resize: size of scsi0 must be a whole number of KiB above 0, was 1000 bytes`: func(ctx context.Context, c *Client) error {
			_, err := c.VM("pve1", 310).Resize(ctx, "scsi0", 1000)
			return err
		},
		`POST /nodes/pve1/storage/local/upload: filename must be letters, digits, ., _ and -, and end in .iso or .img, was "a b.iso"`: func(ctx context.Context, c *Client) error {
			_, err := c.Upload(ctx, "pve1", "local", "a b.iso", []byte("x"))
			return err
		},
		`POST /nodes/pve1/storage/local/upload: content of a.iso must not be empty`: func(ctx context.Context, c *Client) error {
			_, err := c.Upload(ctx, "pve1", "local", "a.iso", nil)
			return err
		},
		`POST /nodes/pve1/storage/local/upload: filename must be letters, digits, ., _ and -, and end in .qcow2, .raw or .vmdk, was "a.iso"`: func(ctx context.Context, c *Client) error {
			_, err := c.UploadImage(ctx, "pve1", "local", "a.iso", "", strings.NewReader("x"), 1)
			return err
		},
		`POST /nodes/pve1/storage/local/upload: content of a.raw must not be empty`: func(ctx context.Context, c *Client) error {
			_, err := c.UploadImage(ctx, "pve1", "local", "a.raw", "", strings.NewReader(""), 0)
			return err
		},
		`DELETE /nodes/pve1/storage/local/content/other:iso%2Fa.iso: volume must be on local, was "other:iso/a.iso"`: func(ctx context.Context, c *Client) error {
			_, err := c.DeleteVolume(ctx, "pve1", "local", "other:iso/a.iso")
			return err
		},
		`GET /nodes/pve1/storage/..%2Fx/content: storage must be the name of a storage, was "../x"`: func(ctx context.Context, c *Client) error {
			_, err := c.Volumes(ctx, "pve1", "../x", "", 0)
			return err
		},
		`GET /tasks: upid must be UPID:host:…:, was "x"`: func(ctx context.Context, c *Client) error {
			_, err := c.Task(ctx, "x")
			return err
		},
	} {
		c, _ := virtual(t, 1, func(r *http.Request, _ string) reply {
			t.Errorf("%s was sent", r.URL)
			return reply{}
		})
		if err := call(t.Context(), c); err == nil || err.Error() != want || !Is(err, Invalid) {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

// Errors are counted and compared by their paths, and a query is in none of them.
func TestErrorsNamePathsWithoutQuery(t *testing.T) {
	for name, calls := range everyCall {
		for i, call := range calls {
			for _, answer := range []reply{data("null"), data(`"none"`), {status: 500, reason: "what is this"}} {
				c, _ := virtual(t, 1, func(*http.Request, string) reply { return answer }, func(c *Connection) {
					c.Wait = func(context.Context, time.Duration) error { return errors.New("no time") }
				})
				var e *Error
				if err := call(t.Context(), c); errors.As(err, &e) && strings.Contains(e.Path, "?") {
					t.Errorf("%s %d: %s", name, i, e.Path)
				}
			}
		}
	}
}

func TestAVersionIsReadAsItComes(t *testing.T) {
	for answer, want := range map[string]Version{
		`{"version":"9.2.11","release":"9.2"}`: {Version: "9.2.11", Release: "9.2"},
		`{"version":"9","release":9.2}`:        {Version: "9", Release: "9.2"},
		`{"release":"9.2"}`:                    {},
		`{"version":""}`:                       {},
		`[]`:                                   {},
	} {
		c, _ := virtual(t, 1, func(*http.Request, string) reply { return data(answer) })
		got, err := c.Version(t.Context())
		probed := c.Probe(t.Context())[0]
		if got != want || probed.Version != want || Is(err, Garbled) != (want == Version{}) || Is(probed.Err, Garbled) != (want == Version{}) {
			t.Errorf("%s: %+v, %v; probed %+v", answer, got, err, probed)
		}
	}
}

func TestAVMIDIsFreeOnlyIfTheServerSaysSo(t *testing.T) {
	taken := reply{status: 400, reason: "Parameter verification failed.", body: `{"data":null,"errors":{"vmid":"VM 310 already exists"},"message":"Parameter verification failed.\n"}`}
	wrong := reply{status: 400, reason: "Parameter verification failed.", body: `{"data":null,"errors":{"vmid":"invalid format"}}`}
	for _, c := range []struct {
		a     reply
		free  bool
		class Class
	}{
		{data(`"310"`), true, ""}, {data(`310`), true, ""}, {taken, false, ""},
		{wrong, false, BadParameters}, {data(`"311"`), false, Garbled}, {data(`null`), false, Garbled}, {data(`""`), false, Garbled},
		{fault(500, "VM 310 already exists"), false, Unknown},
		{reply{status: 595, reason: "x", body: `{"data":null}`}, false, HostUnreachable}, {refuseDial, false, NoEndpoint},
	} {
		client, _ := virtual(t, 1, func(*http.Request, string) reply { return c.a })
		if free, err := client.VMIDFree(t.Context(), 310); free != c.free || ClassOf(err) != c.class {
			t.Errorf("%d %s: %v, %v", c.a.status, c.a.body, free, err)
		}
	}
}

func TestClusterStatusIsQuorateOnlyIfItSaysSo(t *testing.T) {
	node := `{"type":"node","name":"pve2","online":0,"ip":"192.0.2.2","local":0},{"type":"node","name":"pve1","online":1,"local":1}`
	nodes := []ClusterNode{{Name: "pve1", Online: true, Local: true}, {Name: "pve2", IP: "192.0.2.2"}}
	for _, c := range []struct {
		answer string
		want   ClusterStatus
		class  Class
	}{
		{`[{"type":"cluster","name":"lab","quorate":1},` + node + `]`, ClusterStatus{Name: "lab", Quorate: true, Nodes: nodes}, ""},
		{`[` + node + `,{"type":"cluster","name":"lab","quorate":0}]`, ClusterStatus{Name: "lab", Nodes: nodes}, ""},
		{`[` + node + `,{"type":"cluster","name":"lab","quorate":1,"nodes":2}]`, ClusterStatus{Name: "lab", Quorate: true, Whole: true, Nodes: nodes}, ""},
		{`[` + node + `,{"type":"cluster","name":"lab","quorate":1,"nodes":3}]`, ClusterStatus{Name: "lab", Quorate: true, Nodes: nodes}, ""},
		{`[` + node + `,{"type":"cluster","name":"lab"}]`, ClusterStatus{Name: "lab", Nodes: nodes}, ""},
		// Two hosts and no cluster: no one knows.
		{`[` + node + `]`, ClusterStatus{Nodes: nodes}, ""},
		{`[{"type":"node","name":"pve1","online":1}]`, ClusterStatus{Quorate: true, Nodes: []ClusterNode{{Name: "pve1", Online: true}}}, ""},
		{`[]`, ClusterStatus{}, Garbled},
		{`{}`, ClusterStatus{}, Garbled},
	} {
		client, _ := virtual(t, 1, func(*http.Request, string) reply { return data(c.answer) })
		got, err := client.ClusterStatus(t.Context())
		if diff := cmp.Diff(c.want, got); diff != "" || ClassOf(err) != c.class {
			t.Errorf("%s: %v (-want +got):\n%s", c.answer, err, diff)
		}
	}
}

// A machine that is younger than the list's ten seconds has no figures: they are unknown, not zero.
func TestWhatTheListDoesNotSayIsUnknown(t *testing.T) {
	c, _ := virtual(t, 1, func(*http.Request, string) reply {
		return data(`[
			{"id":"qemu/310","node":"pve1","status":"unknown","tags":"b;a","lock":"clone","type":"qemu","vmid":310},
			{"id":"qemu/201","node":"pve1","type":"qemu","vmid":"201","name":"a","status":"running","template":0,"maxmem":536870912,"maxcpu":1,"cpu":0.5,"mem":0,"hastate":"started"},
			{"id":"qemu/9000","type":"qemu","node":"pve1","template":1,"maxmem":"x","cpu":null},
			{"id":"node/pve1","type":"node","node":"pve1","status":"online"},
			{"id":"storage/pve1/local","type":"storage","storage":"local","content":"iso,images","shared":0,"maxdisk":270553174016,"disk":1,"plugintype":"dir","status":"available"},
			{"id":"/pool/workers","pool":"workers","type":"pool"}]`)
	})
	got, err := c.Resources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Resource{
		{ID: "/pool/workers", Type: "pool", Pool: "workers"},
		{ID: "node/pve1", Type: "node", Node: "pve1", Status: "online"},
		{
			ID: "qemu/201", Type: "qemu", Node: "pve1", VMID: 201, Name: "a", Status: "running", HAState: "started",
			Template: pointer(false), CPU: pointer(0.5), MaxCPU: pointer(1.0), Mem: pointer(int64(0)), MaxMem: pointer(int64(536870912)),
		},
		{ID: "qemu/310", Type: "qemu", Node: "pve1", VMID: 310, Status: "unknown", Tags: []string{"a", "b"}, Lock: "clone"},
		{ID: "qemu/9000", Type: "qemu", Node: "pve1", VMID: 9000, Template: pointer(true)},
		{
			ID: "storage/pve1/local", Type: "storage", Storage: "local", Status: "available", PluginType: "dir", Content: []string{"images", "iso"},
			Shared: pointer(false), Disk: pointer(int64(1)), MaxDisk: pointer(int64(270553174016)),
		},
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("empty", func(s []string) []string { return append([]string{}, s...) })); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}

// A clone gets the disks of its template that are attached, and a cloud-init drive. What is
// detached or inserted asks for no right on its storage.
func TestPartsOfATemplateAreThoseOfItsClones(t *testing.T) {
	c, _ := virtual(t, 1, func(*http.Request, string) reply {
		return data(`{"digest":"83d8","template":1,"scsi0":"fast:base-9000-disk-0,size=8G",
			"scsi1":"file=fast:base-9000-disk-1,size=8G","efidisk0":"local:9000/base-9000-disk-0.raw,size=528K","ide0":"discs:iso/debian.iso,media=cdrom","ide2":"ceph:vm-9000-cloudinit,media=cdrom","unused0":"slow:base-9000-disk-2","net0":"virtio=BC:24:11:81:E7:C8,bridge=vmbr1,tag=7"}`)
	})
	got, err := c.VM("pve1", 9000).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := Parts{Storages: []string{"ceph", "fast", "local"}, Discs: []string{"discs"}, Networks: []Bridge{{Name: "vmbr1", VLAN: 7}}}
	if diff := cmp.Diff(want, got.Parts()); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestConfigurationsAreRead(t *testing.T) {
	const config = `{"agent":"1","balloon":0,"boot":"order=scsi0","cores":2,"sockets":2,"description":"# note\n","digest":"83d8",
		"ide2":"local:310/vm-310-cloudinit.qcow2,media=cdrom,size=4M","ide3":"none,media=cdrom","lock":"backup","memory":"2048","name":"lin-1",
		"net0":"virtio=BC:24:11:81:E7:C8,bridge=vmbr0","onboot":1,"protection":1,"tags":"b;a",
		"scsi0":"local:9000/base-9000-disk-0.qcow2/310/vm-310-disk-0.qcow2,size=1536M","scsi1":"file=fast:vm-310-disk-1,size=2T","scsihw":"virtio-scsi-pci",
		"smbios1":"base64=1,uuid=CAE4FD3B-c444-4995-b1b0-8c841a92b0d9","unused0":"local:310/vm-310-disk-2.raw","virtio0":"/dev/sdb"}`
	c, _ := virtual(t, 1, func(*http.Request, string) reply { return data(config) })
	got, err := c.VM("pve1", 310).Config(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Raw["agent"] != "1" || got.Raw["cores"] != "2" || len(got.Raw) != 22 {
		t.Errorf("raw: %q", got.Raw)
	}
	got.Raw = nil
	want := VMConfig{
		Name: "lin-1", Tags: []string{"a", "b"}, Description: "# note\n", UUID: "cae4fd3b-c444-4995-b1b0-8c841a92b0d9",
		Cores: 2, Sockets: 2, Memory: 2 * pricing.GiB, Balloon: pointer(pricing.Bytes(0)), Protection: true, Onboot: true, Lock: "backup", Digest: "83d8",
		Disks: map[string]Volume{
			"ide2":    {ID: "local:310/vm-310-cloudinit.qcow2", Storage: "local", Name: "310/vm-310-cloudinit.qcow2", Size: 4 << 20, Media: "cdrom"},
			"ide3":    {ID: "none", Name: "none", Media: "cdrom"},
			"scsi0":   {ID: "local:9000/base-9000-disk-0.qcow2/310/vm-310-disk-0.qcow2", Storage: "local", Name: "9000/base-9000-disk-0.qcow2/310/vm-310-disk-0.qcow2", Size: 1536 << 20},
			"scsi1":   {ID: "fast:vm-310-disk-1", Storage: "fast", Name: "vm-310-disk-1", Size: 2 << 40},
			"unused0": {ID: "local:310/vm-310-disk-2.raw", Storage: "local", Name: "310/vm-310-disk-2.raw"},
			"virtio0": {ID: "/dev/sdb", Name: "/dev/sdb"},
		},
		Net: map[string]string{"net0": "virtio=BC:24:11:81:E7:C8,bridge=vmbr0"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}

	// What is not set has the server's default, and a clone under way has next to nothing.
	c, _ = virtual(t, 1, func(*http.Request, string) reply {
		return data(`{"description":" qmclone temporary file","digest":"eb54","lock":"clone","memory":"current=64"}`)
	})
	got, err = c.VM("pve1", 310).Config(t.Context())
	if err != nil || got.Name != "" || len(got.Tags) != 0 || got.Cores != 1 || got.Sockets != 1 || got.Memory != 64*pricing.MiB || got.Balloon != nil || got.Lock != "clone" {
		t.Errorf("%+v, %v", got, err)
	}
	// What has no digest is no configuration.
	c, _ = virtual(t, 1, func(*http.Request, string) reply { return data(`{}`) })
	if _, err := c.VM("pve1", 310).Config(t.Context()); !Is(err, Garbled) {
		t.Errorf("%v", err)
	}
}

func TestSizesAreReadAndWritten(t *testing.T) {
	for size, want := range map[pricing.Bytes]string{
		pricing.KiB: "1K", 1536 * pricing.KiB: "1536K", pricing.MiB: "1M", 20 * pricing.GiB: "20G", 1500 * pricing.MiB: "1500M", 2 * pricing.TiB: "2T",
	} {
		if got := formatSize(size); got != want || parseSize(got) != int64(size) {
			t.Errorf("%d: %s, read again %d", size, got, parseSize(got))
		}
	}
	for text, want := range map[string]int64{
		"": 0, "x": 0, "-1G": 0, "512": 512, "1.5G": 3 << 29, "9e99T": 0, "NaN": 0, "K": 0, "99999999T": 0,
	} {
		if got := parseSize(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestWhatHostsAndStoragesSay(t *testing.T) {
	answers := map[string]string{
		"/nodes/pve1/storage": `[{"active":1,"avail":60,"content":"iso,images","enabled":1,"shared":0,"storage":"local","total":100,"type":"dir","used":40},
			{"active":0,"content":"images","enabled":1,"shared":1,"storage":"ceph","type":"rbd"},
			{"active":1,"avail":0,"content":"images","enabled":1,"shared":1,"storage":"broken","total":0,"used":0,"type":"nfs"}]`,
		"/nodes/pve1/network": `[{"iface":"vmbr1","type":"OVSBridge","active":0},{"iface":"vmbr0","type":"bridge","active":1,"bridge_vlan_aware":1},{"iface":"vmbr2","type":"bridge"},
			{"iface":"vnet1","type":"vnet"},{"iface":"vnet2","type":"vnet","active":"1","vlanaware":0},{"iface":"vnet3","type":"vnet","vlanaware":"1"}]`,
		"/cluster/sdn/vnets":                `[{"vnet":"red","zone":"tenants","type":"vnet","tag":30},{"vnet":"blue","zone":"plain","type":"vnet","digest":"a"}]`,
		"/nodes/pve1/storage/local/content": `[{"content":"iso","ctime":1795205435,"format":"iso","size":11,"volid":"local:iso/b.iso"},{"content":"images","vmid":"310","parent":null,"volid":"local:310/a.raw"}]`,
		"/nodes/pve1/qemu/310/agent/network-get-interfaces": `{"result":[{"name":"lo","hardware-address":"00:00:00:00:00:00","ip-addresses":[{"ip-address":"127.0.0.1","ip-address-type":"ipv4","prefix":8}]},
			{"name":"eth0","hardware-address":"bc:24:11:81:e7:c8","ip-addresses":[{"ip-address":"192.0.2.7"},{"ip-address":"fe80::1%eth0"},{"ip-address":"?"}]},{"name":"down0"}]}`,
		"/nodes/pve1/qemu/310/status/current": `{"cpus":2,"ha":{"managed":1},"lock":"backup","maxmem":536870912,"name":"a","qmpstatus":"paused","status":"running","tags":"x","uptime":61,"vmid":310,"template":""}`,
		"/access/roles":                       `[{"roleid":"PVEVMUser","privs":"VM.PowerMgmt,VM.Audit","special":1},{"roleid":"Empty"}]`,
		"/pools":                              `[{"poolid":"workers","comment":"c","members":[{"id":"qemu/311","type":"qemu","vmid":311},{"id":"qemu/310","type":"qemu","vmid":310}]}]`,
	}
	c, _ := virtual(t, 1, func(r *http.Request, _ string) reply { return data(answers[strings.TrimPrefix(r.URL.Path, apiRoot)]) })
	ctx := t.Context()
	for name, c := range map[string]struct {
		got  func() (any, error)
		want any
	}{
		"storages": {func() (any, error) { return c.Storages(ctx, "pve1") }, []StorageStatus{
			{Name: "broken", Type: "nfs", Shared: true, Active: true, Enabled: true, Content: []string{"images"}},
			{Name: "ceph", Type: "rbd", Shared: true, Enabled: true, Content: []string{"images"}},
			{Name: "local", Type: "dir", Active: true, Enabled: true, Sized: true, Total: 100, Used: 40, Avail: 60, Content: []string{"images", "iso"}},
		}},
		"bridges": {func() (any, error) { return c.Networks(ctx, "pve1") }, []Network{
			{Name: "vmbr0", Type: "bridge", Active: pointer(true), VLANAware: pointer(true)}, {Name: "vmbr1", Type: "OVSBridge", Active: pointer(false)},
			{Name: "vmbr2", Type: "bridge", VLANAware: pointer(false)},
			{Name: "vnet1", Type: "vnet"}, {Name: "vnet2", Type: "vnet", Active: pointer(true), VLANAware: pointer(false)}, {Name: "vnet3", Type: "vnet", VLANAware: pointer(true)},
		}},
		"zones": {func() (any, error) { return c.Zones(ctx) }, Zones{"red": "tenants", "blue": "plain"}},
		"volumes": {func() (any, error) { return c.Volumes(ctx, "pve1", "local", "", 0) }, []Volume{
			{ID: "local:310/a.raw", Storage: "local", Name: "310/a.raw", Content: "images", VMID: 310},
			{ID: "local:iso/b.iso", Storage: "local", Name: "iso/b.iso", Content: "iso", Size: 11, Created: time.Unix(1795205435, 0)},
		}},
		"guest": {func() (any, error) { return c.VM("pve1", 310).AgentInterfaces(ctx) }, []GuestInterface{
			{Name: "lo", MAC: "00:00:00:00:00:00", Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
			{Name: "eth0", MAC: "BC:24:11:81:E7:C8", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("fe80::1%eth0")}},
			{Name: "down0"},
		}},
		"status": {func() (any, error) { return c.VM("pve1", 310).Status(ctx) }, VMStatus{
			Status: "running", QMPStatus: "paused", Lock: "backup", Name: "a", Tags: []string{"x"}, HAManaged: true,
			CPUs: pointer(2.0), MaxMem: pointer(int64(536870912)), Uptime: 61 * time.Second,
		}},
		"roles": {func() (any, error) { return c.Access().Roles(ctx) }, map[string][]string{"PVEVMUser": {"VM.Audit", "VM.PowerMgmt"}, "Empty": nil}},
		"pool": {func() (any, error) { return c.Pool(ctx, "workers") }, ResourcePool{Name: "workers", Comment: "c", Members: []Resource{
			{ID: "qemu/310", Type: "qemu", VMID: 310}, {ID: "qemu/311", Type: "qemu", VMID: 311},
		}}},
	} {
		got, err := c.got()
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
			cmp.FilterValues(func(a, b []string) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if _, err := c.Pool(ctx, "other"); !Is(err, Garbled) {
		t.Errorf("another pool than the one asked for: %v", err)
	}
}

// The server says whether a privilege is handed down: held here is not the same as held below.
func TestPrivilegesAreHeldWhereTheyAreHeld(t *testing.T) {
	c, _ := virtual(t, 1, func(*http.Request, string) reply {
		return data(`{"/":{"Sys.Audit":1},"/vms":{"Sys.Audit":1,"VM.Audit":0},"/vms/9000":{"VM.Clone":0},"/storage":{}}`)
	})
	all, err := c.Access().Permissions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := Permissions(all)
	for _, c := range []struct {
		path, privilege string
		want            bool
	}{
		{"/", "Sys.Audit", true}, {"/", "VM.Audit", false}, {"/nodes/pve1", "Sys.Audit", true},
		{"/vms", "VM.Audit", true}, {"/vms/310", "VM.Audit", false}, {"/vms/310", "Sys.Audit", true},
		{"/vms/9000", "VM.Clone", true}, {"/vms/9000", "Sys.Audit", false}, {"/vms/9000/x", "VM.Clone", false},
		{"/storage/local", "Sys.Audit", false}, {"", "Sys.Audit", false}, {"nodes", "Sys.Audit", false},
	} {
		if got := p.Has(c.path, c.privilege); got != c.want {
			t.Errorf("%s on %q: %v", c.privilege, c.path, got)
		}
	}
	use := map[string]bool{"SDN.Use": false}
	given := Permissions{
		"/sdn": {}, "/sdn/zones/tenants": {}, "/sdn/zones/tenants/red/5": use, "/sdn/zones/vlans/red/6": {"SDN.Audit": false}, "/sdn/zones/plain/lab": use,
		"/sdn/zones/localnetwork/lan": use, "/sdn/zones/aged/lan": use, "/sdn/zones/old/lan": use, "/sdn/zones/localnetwork/vmbr0": use, "/vms/100": {},
	}
	if diff := cmp.Diff(Zones{"red": "tenants", "lab": "plain"}, given.Zones()); diff != "" {
		t.Error(diff)
	}
	if Permissions(nil).Has("/vms/1", "VM.Audit") {
		t.Error("nothing is held by a token without rights")
	}
}

func TestAVolumeThatIsGoneAtOnceHasNoTask(t *testing.T) {
	c, _ := virtual(t, 1, func(*http.Request, string) reply { return data("null") })
	if upid, err := c.DeleteVolume(t.Context(), "pve1", "local", "local:iso/a.iso"); upid != "" || err != nil {
		t.Errorf("%q, %v", upid, err)
	}
}

// An upload's body is what a recorded one was: the field first, and the bytes as they are.
// An image that is too large to be kept in memory arrives whole as well.
func TestALargeImageIsSentAsItIsRead(t *testing.T) {
	var body string
	c, _ := virtual(t, 1, func(_ *http.Request, b string) reply {
		body = b
		return data(`"UPID:pve1:000003D8:000317D5:6B00A93A:imgcopy::root@pam!t1:"`)
	})
	content := strings.Repeat("0123456789abcdef", (maxKept>>4)+1)
	if _, err := c.UploadImage(t.Context(), "pve1", "local", "a.qcow2", "feed", strings.NewReader(content), int64(len(content))); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\r\n\r\nimport\r\n", "name=\"checksum\"\r\n\r\nfeed\r\n", "name=\"checksum-algorithm\"\r\n\r\nsha256\r\n", "\r\n\r\n" + content + "\r\n--"} {
		if !strings.Contains(body, want) {
			t.Errorf("of %d bytes, %.60q is missing", len(body), want)
		}
	}
}

func TestAnUploadIsAForm(t *testing.T) {
	var body, kind string
	c, _ := virtual(t, 1, func(r *http.Request, b string) reply {
		body, kind = b, r.Header.Get("Content-Type")
		return data(`"UPID:pve1:000003D8:000317D5:6B00A93A:imgcopy::root@pam!t1:"`)
	})
	content := "\x00\x01hello\r\n--iso"
	upid, err := c.Upload(t.Context(), "pve1", "local", "plimsoll-a.iso", []byte(content))
	if err != nil || upid.Type() != "imgcopy" {
		t.Fatalf("%s, %v", upid, err)
	}
	boundary := "--" + strings.TrimPrefix(kind, "multipart/form-data; boundary=")
	want := boundary + "\r\nContent-Disposition: form-data; name=\"content\"\r\n\r\niso\r\n" +
		boundary + "\r\nContent-Disposition: form-data; name=\"filename\"; filename=\"plimsoll-a.iso\"\r\nContent-Type: application/octet-stream\r\n\r\n" +
		content + "\r\n" + boundary + "--\r\n"
	if diff := cmp.Diff(want, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// Every recorded answer of the real server to a question that we ask can be read.
func TestRecordedAnswersAreRead(t *testing.T) {
	read := map[string]int{}
	for _, e := range exchanges(t) {
		if e.Request == nil || e.Response == nil || e.Request.Method != http.MethodGet || e.Response.Status != 200 {
			continue
		}
		path, query, _ := strings.Cut(strings.TrimPrefix(e.Request.Path, apiRoot), "?")
		for name, ask := range questions {
			m := ask.path.FindStringSubmatch(path)
			if m == nil || strings.Contains(query, "poolid=") != (name == "Pool") && strings.HasPrefix(name, "Pool") {
				continue
			}
			c, _ := virtual(t, 1, func(*http.Request, string) reply {
				return reply{status: 200, reason: "OK", body: string(e.Response.Body)}
			})
			if err := ask.ask(t.Context(), c, m, query); err != nil {
				t.Errorf("%s %s: %v", name, e.Request.Path, err)
			}
			read[name]++
		}
	}
	for name := range questions {
		if read[name] == 0 {
			t.Errorf("nothing recorded for %s", name)
		}
	}
	var counts []string
	for name, n := range read {
		counts = append(counts, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(counts)
	t.Log(strings.Join(counts, ", "))
}
