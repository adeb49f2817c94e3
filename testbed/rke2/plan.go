package rke2

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
)

// Plan is what up would do where nothing of the test bed is there yet.
type Plan struct {
	// Calls are those that change something, in their order, and Reads how often which path is
	// read.
	Calls []PlannedCall  `json:"calls"`
	Reads map[string]int `json:"reads"`
	Discs []PlannedDisc  `json:"discs"`
	// Files are what is written here, but for the secrets in them, which are made anew by up.
	Files []PlannedFile `json:"files"`
}

// PlannedCall is a call to Proxmox VE.
type PlannedCall struct {
	Method string            `json:"method"`
	Path   string            `json:"path"`
	Params map[string]string `json:"params,omitempty"`
}

// PlannedDisc is a machine's first-boot disc with what its guest writes at its first boot.
type PlannedDisc struct {
	Machine string        `json:"machine"`
	Files   []PlannedFile `json:"files"` // on the disc
	Guest   []PlannedFile `json:"guest"` // by cloud-init, in the guest
}

// PlannedFile is a file that is written.
type PlannedFile struct {
	Name    string `json:"name"`
	Bytes   int    `json:"bytes"`
	Content string `json:"content"`
}

// Plan looks at the site, which must be sound, and builds the test bed in an emulated cluster that
// is furnished as the site is: what is done there is what up would do. At the site it only reads.
func (b *Bench) Plan(ctx context.Context) (*Plan, error) {
	if _, err := b.sound(ctx); err != nil {
		return nil, err
	}
	cfg, err := b.premises.survey(ctx)
	if err != nil {
		return nil, fmt.Errorf("survey: %w", err)
	}
	sim, err := pvesim.New(cfg)
	if err != nil {
		return nil, fmt.Errorf("the site cannot be emulated: %w", err)
	}
	defer sim.Close()
	return b.rehearse(ctx, sim)
}

// rehearse builds the test bed in an emulated cluster.
func (b *Bench) rehearse(ctx context.Context, sim *pvesim.Cluster) (*Plan, error) {
	store, net := memory{}, imitate(sim)
	token := sim.Token(b.account.User, b.account.Token, false)
	if b.account.User != "root@pam" {
		sim.Grant("/", "Administrator", b.account.User)
	}
	plan := &Plan{Reads: map[string]int{}}
	wait := func(_ context.Context, d time.Duration) error { sim.Advance(d); return ctx.Err() }
	rehearsal, err := New(Config{
		Site: b.cfg.Site, Store: store, Now: sim.Now, Wait: wait, Rand: rand.New(rand.NewPCG(1, 1)),
		Connection: pveapi.Connection{
			Endpoints: []string{"https://" + sim.Hosts()[0] + ":8006"}, Insecure: true, Now: sim.Now, Wait: wait,
			Transport: &recorder{plan, sim.Transport()}, Token: func() (string, error) { return token, nil },
		},
		Kubernetes: func([]byte) (Kubernetes, error) { return net, nil },
		Report:     func(string) {},
	})
	if err != nil {
		return nil, err
	}
	defer rehearsal.Close()
	if err := rehearsal.Up(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("in the emulated cluster: %w", err), errors.Join(net.wrong...))
	}
	plan.Discs = net.discs
	for _, name := range slices.Sorted(maps.Keys(store)) {
		plan.Files = append(plan.Files, planned(name, store[name]))
	}
	return plan, errors.Join(net.wrong...)
}

func planned(name string, data []byte) PlannedFile {
	return PlannedFile{name, len(data), string(data)}
}

// recorder writes calls down on their way.
type recorder struct {
	plan *Plan
	next http.RoundTripper
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	path := strings.TrimPrefix(req.URL.Path, "/api2/json")
	if req.Method == http.MethodGet {
		r.plan.Reads[path]++
		return r.next.RoundTrip(req)
	}
	var data []byte
	if req.Body != nil {
		var err error
		if data, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Body = io.NopCloser(bytes.NewReader(data))
	}
	call := PlannedCall{Method: req.Method, Path: path, Params: map[string]string{}}
	for key, values := range req.URL.Query() {
		call.Params[key] = values[0]
	}
	if err := r.read(&call, req.Header.Get("Content-Type"), data); err != nil {
		return nil, err
	}
	r.plan.Calls = append(r.plan.Calls, call)
	return r.next.RoundTrip(req)
}

// read adds what is in a call's body.
func (r *recorder) read(call *PlannedCall, kind string, data []byte) error {
	media, params, err := mime.ParseMediaType(kind)
	switch {
	case len(data) == 0:
		return nil
	case err != nil:
		return err
	case media == "multipart/form-data":
		return readUpload(call, multipart.NewReader(bytes.NewReader(data), params["boundary"]))
	case media == "application/x-www-form-urlencoded":
		values, err := url.ParseQuery(string(data))
		for key := range values {
			call.Params[key] = values.Get(key)
		}
		return err
	}
	var values map[string]any
	if err := json.Unmarshal(data, &values); err != nil {
		return err
	}
	for key, value := range values {
		call.Params[key] = fmt.Sprint(value)
	}
	return nil
}

// readUpload adds the fields of an upload, and the name of its file.
func readUpload(call *PlannedCall, form *multipart.Reader) error {
	for {
		p, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if call.Params[p.FormName()] = p.FileName(); p.FileName() != "" {
			continue
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return err
		}
		call.Params[p.FormName()] = string(data)
	}
}

// discOf is what is on the first-boot disc that a machine has booted with.
func discOf(b *pvesim.Boot, doc *cloudConfig) (PlannedDisc, error) {
	d := PlannedDisc{Machine: doc.Hostname}
	for _, f := range []PlannedFile{
		planned(firstboot.MetaData, b.MetaData), planned(firstboot.NetworkConfig, b.NetworkConfig), planned(firstboot.UserData, b.UserData),
	} {
		if f.Bytes > 0 {
			d.Files = append(d.Files, f)
		}
	}
	for _, f := range doc.Files {
		content, err := machines.Unpack(f.Encoding, f.Content)
		if err != nil {
			return d, fmt.Errorf("%s: %w", f.Path, err)
		}
		d.Guest = append(d.Guest, planned(f.Path, content))
	}
	return d, nil
}

// survey is the site as an emulated cluster is made of it.
func (pm *premises) survey(ctx context.Context) (pvesim.Config, error) {
	cfg := pvesim.Config{
		Start: pm.cfg.Now().UTC().Truncate(time.Second), Name: pm.cfg.Site.Owner,
		Times: timing.Machine{
			Clone: timing.Range{Min: 10 * time.Second, Max: 20 * time.Second}, Boot: timing.Range{Min: 30 * time.Second, Max: 60 * time.Second},
			Delete: timing.Range{Min: 2 * time.Second, Max: 5 * time.Second},
		},
	}
	v, err := pm.client.Version(ctx)
	if err != nil {
		return cfg, err
	}
	cfg.Release = v.Version
	list, err := pm.client.Resources(ctx)
	if err != nil {
		return cfg, err
	}
	for _, r := range list {
		if r.Type != "node" || r.Status != "online" || r.MaxCPU == nil || r.MaxMem == nil {
			continue
		}
		if err := pm.surveyHost(ctx, &r, &cfg); err != nil {
			return cfg, err
		}
	}
	if err := pm.surveyImage(ctx, &cfg); err != nil {
		return cfg, err
	}
	for _, r := range list {
		if pm.makes(r.VMID) {
			continue
		}
		if r.Type != "qemu" && r.Type != "lxc" || !slices.ContainsFunc(cfg.Hosts, func(h pvesim.Host) bool { return h.Name == r.Node }) || pm.cfg.Site.VMIDs.Holds(r.VMID) {
			continue // of those in the range all are ours, or the site would not be sound
		}
		vm, err := pm.surveyVM(ctx, &r)
		if err != nil {
			return cfg, err
		}
		cfg.VMs = append(cfg.VMs, vm)
	}
	return cfg, nil
}

// surveyHost adds a host with its bridges and storages.
func (pm *premises) surveyHost(ctx context.Context, r *pveapi.Resource, cfg *pvesim.Config) error {
	h := pvesim.Host{Name: r.Node, CPUs: int(*r.MaxCPU), Memory: *r.MaxMem}
	bridges, err := pm.client.Networks(ctx, r.Node)
	if err != nil {
		return err
	}
	for _, n := range bridges {
		h.Bridges = append(h.Bridges, n.Name)
	}
	cfg.Hosts = append(cfg.Hosts, h)
	storages, err := pm.client.Storages(ctx, r.Node)
	if err != nil {
		return err
	}
	for _, s := range storages {
		if !s.Sized || !s.Active {
			continue
		}
		at := slices.IndexFunc(cfg.Storages, func(o pvesim.Storage) bool { return o.Name == s.Name })
		if at < 0 {
			at = len(cfg.Storages)
			cfg.Storages = append(cfg.Storages, pvesim.Storage{Name: s.Name, Type: s.Type, Shared: s.Shared, Content: s.Content, Total: s.Total, Used: s.Used})
		}
		known := &cfg.Storages[at]
		known.Hosts = append(known.Hosts, r.Node)
		if s.Total-s.Used < known.Total-known.Used { // the emulator has one size for all hosts
			known.Total, known.Used = s.Total, s.Used
		}
	}
	return nil
}

// surveyImage adds the image that the template is made of.
func (pm *premises) surveyImage(ctx context.Context, cfg *pvesim.Config) error {
	i := pm.cfg.Site.Image
	if i == nil {
		return nil
	}
	storage, name, _ := strings.Cut(i.Volume, ":import/")
	volumes, err := pm.client.Volumes(ctx, i.Host, storage, "import", 0)
	for _, v := range volumes {
		if v.ID == i.Volume {
			cfg.Images = append(cfg.Images, pvesim.Image{Host: i.Host, Storage: storage, Name: name, Size: max(v.Size, 1<<30)})
		}
	}
	return err
}

// surveyVM is a machine as far as it takes room, and the template whole.
func (pm *premises) surveyVM(ctx context.Context, r *pveapi.Resource) (pvesim.VM, error) {
	vm := pvesim.VM{ID: r.VMID, Host: r.Node, Running: r.Status == "running", Config: map[string]string{"name": r.Name}}
	if r.MaxMem != nil && *r.MaxMem >= 1<<20 {
		vm.Config["memory"] = fmt.Sprint(*r.MaxMem >> 20)
	}
	if !slices.Contains(pm.cfg.Site.Template.IDs(), r.VMID) {
		return vm, nil
	}
	c, err := pm.client.VM(r.Node, r.VMID).Config(ctx)
	if err != nil {
		return vm, err
	}
	vm.Template, vm.Running = c.Template, false
	for key, value := range c.Raw {
		if _, drive := c.Disks[key]; !drive && !slices.Contains([]string{"digest", "template", "smbios1", "vmgenid", "meta", "boot", "lock"}, key) {
			vm.Config[key] = value
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.Disks)) {
		switch d := c.Disks[key]; {
		case d.Media == "cdrom" && strings.Contains(d.Name, "cloudinit"):
			vm.Config[key] = d.Storage + ":cloudinit,media=cdrom"
		case d.Media != "cdrom" && vm.Disk < d.Size:
			vm.Storage, vm.Disk = d.Storage, d.Size
		}
	}
	return vm, nil
}

// Table prints the plan for people.
func (p *Plan) Table(w io.Writer) {
	fmt.Fprintf(w, "Proxmox VE: %d calls that change something\n", len(p.Calls))
	for _, c := range p.Calls {
		fmt.Fprintf(w, "  %s %s\n", c.Method, c.Path)
		for _, key := range slices.Sorted(maps.Keys(c.Params)) {
			fmt.Fprintf(w, "      %s=%s\n", key, strings.ReplaceAll(strings.TrimSpace(c.Params[key]), "\n", "\n        "))
		}
	}
	fmt.Fprintf(w, "\nProxmox VE: reads\n")
	for _, path := range slices.Sorted(maps.Keys(p.Reads)) {
		fmt.Fprintf(w, "  GET %s, %d times\n", path, p.Reads[path])
	}
	for _, d := range p.Discs {
		fmt.Fprintf(w, "\nFirst-boot disc of %s\n", d.Machine)
		for _, f := range d.Files {
			fmt.Fprintf(w, "  %s, %d bytes\n", f.Name, f.Bytes)
		}
		for _, f := range d.Guest {
			fmt.Fprintf(w, "  in the guest: %s, %d bytes\n", f.Name, f.Bytes)
		}
	}
	fmt.Fprintf(w, "\nFiles here\n")
	for _, f := range p.Files {
		fmt.Fprintf(w, "  %s, %d bytes\n", f.Name, f.Bytes)
	}
}
