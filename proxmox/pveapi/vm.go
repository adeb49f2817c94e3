package pveapi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// CloneOptions are what a clone is made with. What is empty is left to the server.
type CloneOptions struct {
	NewID       int // must be given: a number that the server picks is anybody's
	Name        string
	Pool        string
	Description string
	Storage     string // full clones only
	Target      string // another host; all disks must be on shared storage
	Format      string // full clones only
	Full        *bool  // nil: linked for a template, full for others
}

// VM is a machine on a host, to be asked and ordered.
type VM struct {
	c    *Client
	node string
	id   int
}

// VM returns the machine with an id on a host. It asks nothing.
func (c *Client) VM(node string, id int) VM { return VM{c, node, id} }

// path returns the path of something of the machine.
func (v VM) path(method, rest string) (string, error) {
	path, err := onNode(method, v.node, fmt.Sprintf("/qemu/%d%s", v.id, rest))
	if err == nil && (v.id < minVMID || v.id > maxVMID) {
		return "", invalid(method, path, "vmid must be %d to %d, was %d", minVMID, maxVMID, v.id)
	}
	return path, err
}

// Clone orders a copy of a template on the template's host.
func (v VM) Clone(ctx context.Context, o CloneOptions) (UPID, error) {
	path, err := v.path(http.MethodPost, "/clone")
	if err != nil {
		return "", err
	}
	if o.NewID < minVMID || o.NewID > maxVMID {
		return "", invalid(http.MethodPost, path, "newid must be %d to %d, was %d", minVMID, maxVMID, o.NewID)
	}
	params := map[string]any{"newid": o.NewID}
	for name, value := range map[string]string{
		"name": o.Name, "pool": o.Pool, "description": o.Description,
		"storage": o.Storage, "target": o.Target, "format": o.Format,
	} {
		if value != "" {
			params[name] = value
		}
	}
	if o.Full != nil {
		params["full"] = bit(*o.Full)
	}
	return v.c.order(ctx, http.MethodPost, path, params)
}

// VMConfig is a machine's configuration, with changes that wait for its next start in it.
type VMConfig struct {
	Name        string
	Tags        []string // sorted
	Description string
	UUID        string // what the guest sees as its system's; lower case
	Cores       int    // of one socket
	Sockets     int
	Memory      pricing.Bytes
	Balloon     *pricing.Bytes // nil: as much as Memory; 0: no balloon
	Protection  bool
	Onboot      bool
	Template    bool
	Lock        string
	Digest      string
	Disks       map[string]Volume // by drive, those with a CD in them too
	Net         map[string]string
	Raw         map[string]string
}

// BootDisk is the drive that a machine boots from: the first disk in its boot order.
func (v *VMConfig) BootDisk() string {
	_, named := Properties(v.Raw["boot"])
	order := append(strings.Split(named["order"], ";"), v.Raw["bootdisk"], "scsi0", "virtio0", "sata0", "ide0")
	for _, key := range order {
		if d, there := v.Disks[key]; there && d.Media != "cdrom" && d.Storage != "" {
			return key
		}
	}
	return ""
}

// CPUType is the type of CPU that a machine is started with; empty is the server's default, kvm64.
func (v *VMConfig) CPUType() string {
	first, named := Properties(v.Raw["cpu"])
	return cmp.Or(first, named["cputype"])
}

// Agent reports whether the configuration says that the guest agent is installed.
func (v *VMConfig) Agent() bool {
	first, named := Properties(v.Raw["agent"])
	return cmp.Or(first, named["enabled"]) == "1"
}

// The server's defaults, for keys that are not set.
const defaultMemoryMiB = 512

// Config reads a machine's configuration.
func (v VM) Config(ctx context.Context) (VMConfig, error) {
	path, err := v.path(http.MethodGet, "/config")
	if err != nil {
		return VMConfig{}, err
	}
	f, err := get[fields](ctx, v.c, path, nil)
	if err != nil {
		return VMConfig{}, err
	}
	// Every configuration has a digest. What has none is the answer to something else, and would
	// read as a machine without name, tags and disks.
	if f.text("digest") == "" {
		return VMConfig{}, &Error{Method: http.MethodGet, Path: path, Message: "the configuration has no digest", class: Garbled}
	}
	return vmConfig(f), nil
}

var (
	driveKey = regexp.MustCompile(`^(ide|sata|scsi|virtio|efidisk|tpmstate|unused)\d+$`)
	netKey   = regexp.MustCompile(`^net\d+$`)
)

// IsDrive reports whether a key of a configuration is a drive's.
func IsDrive(key string) bool { return driveKey.MatchString(key) }

func vmConfig(f fields) VMConfig {
	v := VMConfig{
		Name: f.text("name"), Tags: f.list("tags"), Description: f.text("description"),
		Cores: max(f.count("cores"), 1), Sockets: max(f.count("sockets"), 1), Memory: defaultMemoryMiB * pricing.MiB,
		Protection: f.is("protection"), Onboot: f.is("onboot"), Template: f.is("template"),
		Lock: f.text("lock"), Digest: f.text("digest"),
		Disks: map[string]Volume{}, Net: map[string]string{}, Raw: make(map[string]string, len(f)),
	}
	for key := range f {
		v.Raw[key] = f.text(key)
	}
	_, smbios := Properties(v.Raw["smbios1"])
	v.UUID = strings.ToLower(smbios["uuid"])
	// memory is a number, or the property string current=N.
	first, named := Properties(v.Raw["memory"])
	if first == "" {
		first = named["current"]
	}
	if mib, err := strconv.ParseInt(first, 10, 32); err == nil {
		v.Memory = pricing.Bytes(mib) * pricing.MiB
	}
	if mib, err := strconv.ParseInt(v.Raw["balloon"], 10, 32); err == nil {
		balloon := pricing.Bytes(mib) * pricing.MiB
		v.Balloon = &balloon
	}
	for key, value := range v.Raw {
		switch {
		case IsDrive(key):
			v.Disks[key] = ParseDrive(value)
		case netKey.MatchString(key):
			v.Net[key] = value
		}
	}
	return v
}

// ParseDrive reads a drive's property string.
func ParseDrive(text string) Volume {
	first, named := Properties(text)
	if first == "" {
		first = named["file"]
	}
	v := ParseVolume(first)
	v.Media = named["media"]
	v.Size = parseSize(named["size"])
	return v
}

// parseSize reads a size as configurations have it, 10G or 512K; 0 if the text is not a size.
func parseSize(text string) int64 {
	shift := 0
	if n := len(text); n > 0 {
		if i := strings.IndexByte("KMGT", text[n-1]); i >= 0 {
			shift, text = 10*(i+1), text[:n-1]
		}
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0) || n*float64(int64(1)<<shift) >= 1<<62 {
		return 0
	}
	return int64(n * float64(int64(1)<<shift))
}

// VMStatus is what a machine does now.
type VMStatus struct {
	Status    string // running, stopped
	QMPStatus string // running, paused, stopped, prelaunch
	Lock      string
	Name      string
	Tags      []string
	Template  bool
	HAManaged bool
	CPUs      *float64
	MaxMem    *int64
	Uptime    time.Duration
}

// Status asks what a machine does now. It is asked of its host, and not ten seconds old.
func (v VM) Status(ctx context.Context) (VMStatus, error) {
	path, err := v.path(http.MethodGet, "/status/current")
	if err != nil {
		return VMStatus{}, err
	}
	f, err := get[fields](ctx, v.c, path, nil)
	if err != nil {
		return VMStatus{}, err
	}
	if s := f.text("status"); s != "running" && s != "stopped" {
		return VMStatus{}, &Error{Method: http.MethodGet, Path: path, Message: fmt.Sprintf("the status must be running or stopped, was %q", s), class: Garbled}
	}
	return VMStatus{
		Status: f.text("status"), QMPStatus: f.text("qmpstatus"), Lock: f.text("lock"), Name: f.text("name"),
		Tags: f.list("tags"), Template: f.is("template"), HAManaged: f.object("ha").is("managed"),
		CPUs: f.number("cpus"), MaxMem: f.whole("maxmem"),
		Uptime: time.Duration(f.count("uptime")) * time.Second,
	}, nil
}

// SetConfig writes keys of a machine's configuration and removes others, at once. With the digest
// of a configuration that was read it fails as Changed if another client has written meanwhile.
func (v VM) SetConfig(ctx context.Context, values map[string]string, remove []string, digest string) error {
	path, err := v.path(http.MethodPut, "/config")
	if err != nil {
		return err
	}
	if len(values)+len(remove) == 0 {
		return invalid(http.MethodPut, path, "there must be something to set or to delete")
	}
	params := make(map[string]any, len(values)+2)
	for key, value := range values {
		if key == "delete" || key == "digest" || slices.Contains(remove, key) {
			return invalid(http.MethodPut, path, "%s must not be set this way, or set and deleted at once", key)
		}
		params[key] = value
	}
	if len(remove) > 0 {
		params["delete"] = strings.Join(slices.Sorted(slices.Values(remove)), ",")
	}
	if digest != "" {
		params["digest"] = digest
	}
	_, err = v.c.call(ctx, http.MethodPut, path, params)
	return err
}

// Resize grows a disk to a size; one that has it already stays as it is.
func (v VM) Resize(ctx context.Context, disk string, size pricing.Bytes) (UPID, error) {
	path, err := v.path(http.MethodPut, "/resize")
	if err != nil {
		return "", err
	}
	if size <= 0 || size%pricing.KiB != 0 {
		return "", invalid(http.MethodPut, path, "size of %s must be a whole number of KiB above 0, was %d bytes", disk, size)
	}
	return v.c.order(ctx, http.MethodPut, path, map[string]any{"disk": disk, "size": formatSize(size)})
}

// formatSize writes a size in the largest unit that holds it exactly.
func formatSize(size pricing.Bytes) string {
	for _, u := range []struct {
		unit   pricing.Bytes
		letter string
	}{{pricing.TiB, "T"}, {pricing.GiB, "G"}, {pricing.MiB, "M"}} {
		if size%u.unit == 0 {
			return fmt.Sprintf("%d%s", size/u.unit, u.letter)
		}
	}
	return fmt.Sprintf("%dK", size/pricing.KiB)
}

// Start orders a machine to be started.
func (v VM) Start(ctx context.Context) (UPID, error) {
	return v.power(ctx, "start", nil)
}

// Stop orders a machine to be stopped as if its power were cut. A shutdown that is under way is
// waited for, or with overrule ended.
func (v VM) Stop(ctx context.Context, overrule bool) (UPID, error) {
	params := map[string]any{}
	if overrule {
		params["overrule-shutdown"] = 1
	}
	return v.power(ctx, "stop", params)
}

// Shutdown orders the guest to shut down within a time, or the server's minute if that is 0. With
// forceStop it is stopped if it did not. The task holds the machine's lock all the time.
func (v VM) Shutdown(ctx context.Context, timeout time.Duration, forceStop bool) (UPID, error) {
	params := map[string]any{}
	if timeout > 0 {
		params["timeout"] = int64((timeout + time.Second - 1) / time.Second)
	}
	if forceStop {
		params["forceStop"] = 1
	}
	return v.power(ctx, "shutdown", params)
}

func (v VM) power(ctx context.Context, verb string, params map[string]any) (UPID, error) {
	path, err := v.path(http.MethodPost, "/status/"+verb)
	if err != nil {
		return "", err
	}
	return v.c.order(ctx, http.MethodPost, path, params)
}

// Destroy orders a machine and its disks to be removed, with purge from backup jobs, replication
// and HA too. Disks that only have its number and are not in its configuration stay: on storage
// that clusters share, they may be another's.
func (v VM) Destroy(ctx context.Context, purge bool) (UPID, error) {
	path, err := v.path(http.MethodDelete, "")
	if err != nil {
		return "", err
	}
	if purge {
		path += "?" + url.Values{"purge": {"1"}}.Encode()
	}
	return v.c.order(ctx, http.MethodDelete, path, nil)
}

// GuestInterface is a network interface as the guest sees it.
type GuestInterface struct {
	Name, MAC string
	Addresses []netip.Addr
}

// AgentInterfaces asks the guest agent for the guest's addresses. While there is no agent, the
// question takes three seconds and a worker of the host; never more than one is under way there.
func (v VM) AgentInterfaces(ctx context.Context) ([]GuestInterface, error) {
	path, err := v.path(http.MethodGet, "/agent/network-get-interfaces")
	if err != nil {
		return nil, err
	}
	f, err := get[fields](ctx, v.c, path, nil)
	if err != nil {
		return nil, err
	}
	list, err := f.objects("result")
	if err != nil {
		return nil, &Error{Method: http.MethodGet, Path: path, Message: "the agent's answer is of another kind: " + err.Error(), class: Garbled, cause: err}
	}
	all := make([]GuestInterface, 0, len(list))
	for _, g := range list {
		i := GuestInterface{Name: g.text("name"), MAC: strings.ToUpper(g.text("hardware-address"))}
		addresses, _ := g.objects("ip-addresses") // an interface that is down has none
		for _, a := range addresses {
			if addr, err := netip.ParseAddr(a.text("ip-address")); err == nil {
				i.Addresses = append(i.Addresses, addr)
			}
		}
		all = append(all, i)
	}
	return all, nil
}

// Parts are what a template is made of. Who clones it needs rights on them, and the configuration
// does not name them.
type Parts struct {
	Storages []string // of its disks and of its cloud-init drive
	Discs    []string // storages of the discs in its drives: clones have the same ones
	Networks []Bridge // of its network cards
	Further  []Bridge // of all but the first, which clones keep
	Trunks   string   // of the first, which clones keep on another bridge, too
}

// Bridge is a network that a machine is put on.
type Bridge struct {
	Name   string
	VLAN   int    // 0 for no VLAN
	Trunks string // further VLANs that the machine sees: 5;7;20-29
}

// Parts are what the machine is made of.
func (v *VMConfig) Parts() Parts {
	_, first := Properties(v.Net["net0"])
	further := maps.Clone(v.Net)
	delete(further, "net0")
	storages, discs := v.storages()
	return Parts{Storages: storages, Discs: discs, Networks: bridges(v.Net), Further: bridges(further), Trunks: first["trunks"]}
}

// storages are those that a clone's disks and cloud-init drive are made on, and those where the
// discs are that are inserted. These stay where they are.
func (v *VMConfig) storages() (made, discs []string) {
	for key, d := range v.Disks {
		switch {
		case d.Storage == "" || strings.HasPrefix(key, "unused"):
		case d.Disc():
			discs = append(discs, d.Storage)
		default:
			made = append(made, d.Storage)
		}
	}
	slices.Sort(made)
	slices.Sort(discs)
	return slices.Compact(made), slices.Compact(discs)
}

// Disc reports whether the volume is a disc in a drive, as after an installation.
func (v *Volume) Disc() bool { return v.Media == "cdrom" && v.Storage != "" && !v.CloudInit() }

// CloudInit reports whether the volume is a cloud-init drive, which Proxmox VE makes.
func (v *Volume) CloudInit() bool { return v.Media == "cdrom" && strings.Contains(v.Name, "cloudinit") }

// bridges are those that network cards are on.
func bridges(cards map[string]string) []Bridge {
	var all []Bridge
	for _, key := range slices.Sorted(maps.Keys(cards)) {
		_, named := Properties(cards[key])
		b := Bridge{Name: named["bridge"], Trunks: named["trunks"]}
		_, _ = fmt.Sscanf(named["tag"], "%d", &b.VLAN)
		if b.Name != "" && !slices.Contains(all, b) {
			all = append(all, b)
		}
	}
	return all
}
