package machines

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// How long a clone takes. A linked clone takes the time that is drawn for it: three tenths pass
// before it has anything, and an eighth, but no more than three seconds, while it makes its disks,
// for which it holds the storage's lock. A full clone takes that time again for every so many bytes
// that it copies.
const fullCloneUnit = 8 << 30

func clonePrepares(takes time.Duration) time.Duration { return takes * 3 / 10 }

// How long a clone that failed waits before it tidies up, and then takes for that.
const (
	cloneLinger = time.Second
	cloneTidies = 100 * time.Millisecond
)

// Between two disks a clone writes its configuration, and others who wait for the storage come
// first. A disk takes so many times as long as a volume of cloud-init's.
const (
	cloneWrites = 10 * time.Millisecond
	diskShares  = 8
)

// cloning is a clone that is to be made.
type cloning struct {
	source, id int
	name, text string
	pool       string
	snapshot   string
	storage    string
	format     string
	target     *world.Node // nil is the source's own
	full       bool
	chooses    bool // full or linked has been said
	wasRunning bool
}

// plan is what a clone consists of.
type plan struct {
	conf   map[string]string // without drives that are copied
	source map[string]string
	drives []string // that are copied, or linked
	full   map[string]bool
}

func postClone(k *call) (any, error) {
	n := &cloning{
		source: k.id(), id: k.In.Int("newid", 0), name: k.In["name"], text: k.In["description"], pool: k.In["pool"],
		snapshot: k.In["snapname"], storage: k.In["storage"], format: k.In["format"], full: k.In.Is("full"), chooses: k.In.Has("full"),
	}
	j := k.Errand()
	var err error
	if n.wasRunning, err = j.Running(n.source); err != nil {
		return nil, err
	}
	if err := poolExists(j, n.pool); err != nil {
		return nil, err
	}
	if t := k.In["target"]; t != "" && t != k.Node.Name && t != "localhost" {
		if n.target = k.World.Node(t); n.target == nil {
			return nil, failure.New("no such cluster node '%s'", t)
		}
	}
	if _, err := n.planClone(j); err != nil {
		return nil, err
	}
	return k.Task("qmclone", k.In["vmid"], func(j *world.Errand) error { return n.clone(j) }), nil
}

// planClone looks at everything that could be in a clone's way. It is done before the task begins,
// and again in it, since much can happen while it waits for its locks.
func (n *cloning) planClone(j *world.Errand) (*plan, error) {
	if err := poolExists(j, n.pool); err != nil {
		return nil, err
	}
	if err := n.checkCloneStorage(j); err != nil {
		return nil, err
	}
	if err := j.Quorate(); err != nil {
		return nil, err
	}
	m, err := j.Config(n.source)
	if err != nil {
		return nil, err
	}
	if err := m.Unlocked(); err != nil {
		return nil, err
	}
	if m.Running() != n.wasRunning {
		return nil, failure.New("unexpected state change")
	}
	source := m.Conf
	if n.snapshot != "" {
		s, err := m.Snapshot(n.snapshot)
		if err != nil {
			return nil, err
		}
		source = s.Conf
	}
	if !n.chooses {
		n.full = !m.Template()
	}
	if err := n.mayClone(j, source); err != nil {
		return nil, err
	}
	if j.World.VMAt(j.Host, n.id) != nil {
		return nil, failure.New("unable to create VM %d: config file already exists", n.id)
	}
	return n.planDrives(j, source)
}

func (n *cloning) checkCloneStorage(j *world.Errand) error {
	if n.storage == "" {
		return nil
	}
	s, err := j.World.StorageOn(j.Host, n.storage)
	if err != nil {
		return err
	}
	if !s.Keeps("images") {
		return failure.OfParameter("storage", fmt.Sprintf("storage '%s' does not support vm images", n.storage))
	}
	if n.target == nil {
		return nil
	}
	if _, err := j.World.StorageOn(n.target, n.storage); err != nil {
		return err
	}
	if !s.Shared {
		return failure.New("can't clone to non-shared storage '%s'", n.storage)
	}
	return nil
}

// mayClone refuses clones of what the caller may not use, and those that cannot be.
func (n *cloning) mayClone(j *world.Errand, source map[string]string) error {
	if n.storage != "" && !n.full {
		return failure.New("parameter 'storage' not allowed for linked clones")
	}
	if n.format != "" && !n.full {
		return failure.New("parameter 'format' not allowed for linked clones")
	}
	shared := true
	for _, key := range vmconf.DrivesOf(source) {
		d := vmconf.ParseDrive(source[key])
		storage, _, stored := vmconf.SplitVolume(d.File)
		if !stored {
			continue
		}
		s, err := j.World.StorageNamed(storage)
		if err != nil {
			return err
		}
		shared = shared && s.Shared
		if d.CDROM() {
			continue
		}
		if err := j.All("/storage/"+cmp.Or(n.storage, storage), "Datastore.AllocateSpace"); err != nil {
			return err
		}
	}
	if err := mayUseBridges(j, source); err != nil {
		return err
	}
	if n.target != nil && !shared {
		return failure.New("can't clone VM to node '%s' (VM uses local storage)", n.target.Name)
	}
	return nil
}

// notCloned are keys that belong to the source alone.
var notCloned = []string{"parent", "snaptime", "vmstate", "snapstate", "runningcpu", "runningmachine", "template", "lock"}

// planDrives copies the configuration, all but the machine's identity, and says which drives are
// copied and which are linked.
func (n *cloning) planDrives(j *world.Errand, source map[string]string) (*plan, error) {
	p := &plan{conf: maps.Clone(source), source: source, full: map[string]bool{}}
	for _, key := range notCloned {
		delete(p.conf, key)
	}
	for _, key := range world.Sorted(source) {
		d := vmconf.ParseDrive(source[key])
		switch {
		case vmconf.IsUnused(key):
			delete(p.conf, key)
		case vmconf.IsDrive(key) && !d.Disc() && d.File != "none":
			if err := n.planDrive(j, p, key, d); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (n *cloning) planDrive(j *world.Errand, p *plan, key string, d vmconf.Drive) error {
	of := fmt.Sprintf("clone feature is not supported for '%s' (%s)", d.File, key)
	if n.snapshot != "" {
		of = fmt.Sprintf("clone feature is not supported for a snapshot of '%s' (%s)", d.File, key)
	}
	s, v := j.World.Volume(j.Host, d.File)
	if n.full || d.CloudInit() || key == "tpmstate0" {
		if v == nil {
			return failure.New("Full %s", of)
		}
		p.full[key] = true
	} else if v == nil || n.snapshot != "" || !s.CanLink(v) {
		return failure.New("Linked %s", of)
	}
	delete(p.conf, key)
	p.drives = append(p.drives, key)
	return nil
}

// clone makes a clone while it holds the locks of both machines: that of the source for itself
// alone only if that runs, so that of a template many clones can be made at the same time.
func (n *cloning) clone(j *world.Errand) error {
	l := j.Host.File(n.source)
	if n.wasRunning {
		if err := j.Lock(l, world.WaitFileOfClone, world.LockFile(n.source)); err != nil {
			return err
		}
		defer l.Unlock()
	} else {
		if err := j.Share(l, world.WaitFileOfClone, world.LockFile(n.source)); err != nil {
			return err
		}
		defer l.Unshare()
	}
	return j.Locked(n.id, world.WaitFileOfClone, func() error { return n.cloneLocked(j) })
}

func (n *cloning) cloneLocked(j *world.Errand) error {
	p, err := n.planClone(j)
	if err != nil {
		return err
	}
	j.Print("creating a clone of VM %d with ID %d", n.source, n.id)
	if other := j.World.VMs[n.id]; other != nil {
		return failure.New("close (rename) atomic file '/etc/pve/nodes/%s/qemu-server/%d.conf' failed: File exists", j.Host.Name, n.id)
	}
	n.identify(j, p)
	m := newVM(j.World, j.Host, n.id, map[string]string{"lock": "clone", "description": " qmclone temporary file"})
	var made []string
	if err := n.cloneDrives(j, p, m, &made); err != nil {
		return n.undoClone(j, made, err)
	}
	return nil
}

// identify gives the clone an identity of its own.
func (n *cloning) identify(j *world.Errand, p *plan) {
	for _, key := range world.Sorted(p.conf) {
		if vmconf.IsNet(key) {
			net := vmconf.ParseNet(p.conf[key])
			delete(net, "macaddr")
			p.conf[key] = printNet(j.World, net)
		}
	}
	p.conf["smbios1"] = vmconf.WithUUID(p.conf["smbios1"], vmconf.NewUUID(j.World.RNG("uuids")))
	if p.conf["vmgenid"] != "" {
		p.conf["vmgenid"] = vmconf.NewUUID(j.World.RNG("uuids"))
	}
	p.conf["name"] = n.name
	if n.name == "" {
		p.conf["name"] = "Copy-of-VM-" + cmp.Or(p.source["name"], fmt.Sprint(n.source))
	}
	if n.text != "" {
		p.conf["description"] = n.text
	}
}

// cloneDrives makes the drives one after the other, and writes the configuration after each, so
// that the machine can be seen to grow.
func (n *cloning) cloneDrives(j *world.Errand, p *plan, m *world.Guest, made *[]string) error {
	takes := j.World.Config.Times.Clone.Draw(j.World.RNG("clone"))
	share := world.Allocates(takes) / p.shares()
	j.Doze(clonePrepares(takes))
	for i, key := range p.drives {
		if i == 1 {
			if err := j.Stage("clone"); err != nil {
				return err
			}
		}
		d, err := n.cloneDrive(j, key, vmconf.ParseDrive(p.source[key]), p.full[key], share, takes, made)
		if err != nil {
			return err
		}
		if err := j.Write(n.id); err != nil {
			return err
		}
		p.conf[key] = d.String()
		m.Conf = maps.Clone(p.conf)
		m.Conf["lock"] = "clone"
		j.Doze(cloneWrites)
	}
	if len(p.drives) < 2 {
		if err := j.Stage("clone"); err != nil {
			return err
		}
	}
	if err := pauseSignal(j, takes-clonePrepares(takes)-share*p.shares()-cloneWrites*time.Duration(len(p.drives))); err != nil {
		return err
	}
	if err := j.Write(n.id); err != nil {
		return err
	}
	m.Conf = p.conf
	if n.target != nil {
		m.Host = n.target
	}
	j.World.Access.PutInPool(n.id, n.pool)
	return nil
}

// shares are in how many parts the time to make the disks is divided: those of cloud-init take one.
func (p *plan) shares() time.Duration {
	var n time.Duration
	for _, key := range p.drives {
		if vmconf.ParseDrive(p.source[key]).CloudInit() {
			n++
		} else {
			n += diskShares
		}
	}
	return max(n, 1)
}

// errSignal is world.ErrInterrupted in the words of what makes clones.
var errSignal = failure.New("interrupted by signal")

func pauseSignal(j *world.Errand, d time.Duration) error {
	if j.Pause(d) != nil {
		return errSignal
	}
	return nil
}

func (n *cloning) cloneDrive(j *world.Errand, key string, d vmconf.Drive, full bool, share, takes time.Duration, made *[]string) (vmconf.Drive, error) {
	kind := map[bool]string{true: "full", false: "linked"}[full]
	j.Print("create %s clone of drive %s (%s)", kind, key, d.File)
	s, v := j.World.Volume(j.Host, d.File)
	if v == nil {
		return d, failure.New("volume '%s' does not exist", d.File)
	}
	var copied *world.Volume
	var err error
	if full {
		if n.storage != "" {
			if s, err = j.World.StorageOn(j.Host, n.storage); err != nil {
				return d, err
			}
		}
		copied, err = copyVolume(j, s, v, n.id, cmp.Or(n.format, v.Format), d, share, takes, made)
	} else if copied, err = j.Link(s, v, n.id, share*diskShares); err == nil {
		*made = append(*made, s.VolID(copied))
	}
	if err != nil {
		return d, err
	}
	d.File, d.Opts["size"] = s.VolID(copied), vmconf.PrintSize(copied.Size)
	delete(d.Opts, "format")
	return d, nil
}

// copyVolume makes a full copy of a volume for another machine. What it has made is in made at
// once, so that it can be removed if the copy fails.
func copyVolume(j *world.Errand, s *world.Store, v *world.Volume, id int, format string, d vmconf.Drive, share, takes time.Duration, made *[]string) (*world.Volume, error) {
	if err := v.MayCopy(); err != nil {
		return nil, err
	}
	w := world.Wanted{ID: id, Format: format, Size: v.Size, Guest: v.Guest, Takes: share * diskShares}
	if d.CloudInit() {
		w = cloudInitWanted(s, id, v.Format)
		w.Takes = share
	}
	copied, err := j.Allocate(s, w)
	if err != nil {
		return nil, err
	}
	*made = append(*made, s.VolID(copied))
	j.Print("allocated target volume '%s'", s.VolID(copied))
	if d.CloudInit() {
		return copied, nil
	}
	if err := transfer(j, copied.Size, takes); err != nil {
		return nil, failure.New("copy failed: command '/usr/bin/qemu-img convert -p -n -f %s -O %s %s zeroinit:%s' failed: %s",
			v.Format, copied.Format, s.Path(v.Name), s.Path(copied.Name), failure.Text(err))
	}
	return copied, nil
}

// transferSteps is how often a copy says how far it has come, from its beginning to its end.
const transferSteps = 10

// transfer takes the time of a copy, and says how far it is.
func transfer(j *world.Errand, size int64, unit time.Duration) error {
	takes := time.Duration(float64(unit) * float64(size) / fullCloneUnit)
	for i := range transferSteps + 1 {
		if i > 0 {
			if err := pauseSignal(j, takes/transferSteps); err != nil {
				return err
			}
		}
		if i == 0 || i == transferSteps || takes > time.Second*transferSteps {
			done := size / transferSteps * int64(i)
			if i == transferSteps {
				done = size
			}
			j.Print("transferred %s of %s (%.2f%%)", printBytes(done), printBytes(size), 100*float64(i)/transferSteps)
		}
	}
	return nil
}

// printBytes is a size as it is shown to people.
func printBytes(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	f, i := float64(n), 0
	for f >= 1024 && i < len(units)-1 {
		f, i = f/1024, i+1
	}
	return fmt.Sprintf("%.1f %s", f, units[i])
}

// undoClone removes what a clone that failed has made.
func (n *cloning) undoClone(j *world.Errand, made []string, why error) error {
	j.Process.Sleep(cloneLinger + cloneTidies)
	for _, volid := range made {
		if err := j.Free(volid); err != nil {
			j.Print("%s", failure.Text(err))
		}
	}
	if j.World.VMAt(j.Host, n.id) != nil {
		delete(j.World.VMs, n.id)
	}
	if errors.Is(why, world.ErrInterrupted) {
		why = errSignal
	}
	return world.Because("clone failed: ", why)
}

func postTemplate(k *call) (any, error) {
	disk := k.In["disk"]
	if _, err := checkTemplate(k.Errand(), k.id(), disk); err != nil {
		return nil, err
	}
	id := k.id()
	return k.Task("qmtemplate", k.In["vmid"], func(j *world.Errand) error {
		return j.Locked(id, world.WaitFile, func() error { return makeTemplate(j, id, disk) })
	}), nil
}

func checkTemplate(j *world.Errand, id int, disk string) (*world.Guest, error) {
	m, err := j.Config(id)
	if err != nil {
		return nil, err
	}
	if err := m.Unlocked(); err != nil {
		return nil, err
	}
	switch {
	case len(m.Snaps) > 0:
		return nil, failure.New("unable to create template, because VM contains snapshots")
	case m.Template() && disk == "":
		return nil, failure.New("you can't convert a template to a template")
	case m.Running():
		return nil, failure.New("you can't convert a VM to template if VM is running")
	}
	return m, nil
}

// makeTemplate turns a machine's disks into ones that linked clones can be made of.
func makeTemplate(j *world.Errand, id int, disk string) error {
	m, err := checkTemplate(j, id, disk)
	if err != nil {
		return err
	}
	if err := j.Stage("template"); err != nil {
		return err
	}
	if err := j.Write(id); err != nil {
		return err
	}
	m.Conf["template"] = "1"
	for _, key := range vmconf.DrivesOf(m.Conf) {
		d := vmconf.ParseDrive(m.Conf[key])
		s, v := j.World.Volume(j.Host, d.File)
		if d.CDROM() || disk != "" && key != disk || v == nil || !s.CanBase() || strings.Contains(v.Name, "base-") && v.Parent == "" {
			continue
		}
		if v.Parent != "" {
			return failure.New("you can't convert a linked clone '%s' to a base image", d.File)
		}
		if err := j.MakeBase(s, v); err != nil {
			return err
		}
		d.File = s.VolID(v)
		m.Conf[key] = d.String()
	}
	return nil
}
