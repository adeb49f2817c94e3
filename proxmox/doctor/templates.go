package doctor

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// examineTemplates looks whether the templates are there, can be cloned to the hosts that they are
// for, and fit the pools.
func (e *examination) examineTemplates() {
	for i := range e.site.Pools {
		p := &e.site.Pools[i]
		for _, id := range p.Template.IDs() {
			if e.examineTemplate(i, p, e.templates[id]) {
				e.examineFit(i, p, e.templates[id])
			}
		}
		e.examineReach(i, p)
	}
}

// about names a template of a pool.
func about(p *settings.Pool, id int) string { return fmt.Sprintf("%d for pool %s", id, p.Name) }

// examineTemplate looks for a template, and reports whether it is there and one.
func (e *examination) examineTemplate(i int, p *settings.Pool, t *templateFound) bool {
	subject, key := about(p, t.vmid), e.site.KeyOf(i)+".template"
	switch {
	case t.absent:
		e.add(Fail, "templates.there", subject, []string{"qm list (on every host), and " + key + ": the VMID of a template"}, "there is no VM %d, which %s names", t.vmid, key)
	case t.err != nil && p.Template.VMID == 0 && slices.Contains(e.all, t.host) && !slices.Contains(e.hosts, t.host):
		e.skip("templates.there", subject, "not looked at: it is on %s, which is offline", t.host)
	case t.err != nil:
		e.failed("templates.there", subject, t.err)
	case !t.config.Template:
		e.add(Fail, "templates.there", subject, []string{fmt.Sprintf("qm template %d (on %s)", t.vmid, t.host)}, "VM %d (%s) on %s is no template", t.vmid, t.config.Name, t.host)
	case t.config.Lock != "":
		e.add(Fail, "templates.there", subject, []string{fmt.Sprintf("qm unlock %d (on %s, if no task works on it)", t.vmid, t.host)}, "template %d is locked (%s) and cannot be cloned", t.vmid, t.config.Lock)
	default:
		e.ok("templates.there", subject, "template %d (%s) is on %s", t.vmid, t.config.Name, t.host)
		return true
	}
	return false
}

// examineFit looks whether what is in a template fits what the pool makes of it.
func (e *examination) examineFit(i int, p *settings.Pool, t *templateFound) {
	subject := about(p, t.vmid)
	key := t.config.BootDisk()
	disk, ok := t.config.Disks[key], key != ""
	if !ok {
		e.add(Fail, "templates.disk", subject, []string{fmt.Sprintf("qm set %d --boot order=DISK (on %s)", t.vmid, t.host)}, "template %d has no disk that it boots from", t.vmid)
	}
	for j, s := range p.Shapes {
		if ok && s.Disk > 0 && int64(s.Disk) < disk.Size {
			at := fmt.Sprintf("%s.shapes[%d].disk", e.site.KeyOf(i), j)
			e.add(Fail, "templates.disk", subject+", shape "+s.Name, []string{at + ": " + placement.Size(pricing.Bytes(disk.Size)) + ", or more"},
				"%s of template %d has %s, and disks do not shrink to the %s of shape %s", key, t.vmid, placement.Size(pricing.Bytes(disk.Size)), placement.Size(s.Disk), s.Name)
			ok = false
		}
	}
	if ok {
		e.ok("templates.disk", subject, "%s of template %d fits all shapes", key, t.vmid)
	}
	e.examineSeed(p, t)
	e.examineAgent(i, p, t)
	e.examineCPU(i, p, t)
	e.examineTraits(p, t)
}

// examineSeed looks for the drive that machines read at their first boot.
func (e *examination) examineSeed(p *settings.Pool, t *templateFound) {
	drive, subject := "", about(p, t.vmid)
	for _, key := range slices.Sorted(maps.Keys(t.config.Disks)) {
		if d := t.config.Disks[key]; d.CloudInit() {
			drive = key
		}
	}
	switch {
	case p.NeedsDisc() && pve.DiscDrive(&t.config) == "":
		e.add(Fail, "templates.seed", subject, []string{fmt.Sprintf("qm set %d --delete DRIVE (on %s, a CD drive that is not needed)", t.vmid, t.host)},
			"template %d has no drive left for the first-boot disc: %s are taken", t.vmid, strings.Join(pve.DiscDrives, ", "))
	case p.NeedsDisc() && drive != "":
		e.ok("templates.seed", subject, "machines get their first-boot disc in place of the cloud-init drive %s of template %d", drive, t.vmid)
	case p.NeedsDisc():
		e.ok("templates.seed", subject, "machines get a first-boot disc besides what template %d has", t.vmid)
	case drive == "":
		e.add(Warn, "templates.seed", subject, []string{fmt.Sprintf("qm set %d --ide2 STORAGE:cloudinit (on %s)", t.vmid, t.host)},
			"template %d has no cloud-init drive, and pool %s makes no first-boot discs: machines get neither name nor address", t.vmid, p.Name)
	default:
		e.ok("templates.seed", subject, "machines are configured by the cloud-init drive %s of template %d", drive, t.vmid)
	}
}

// examineAgent looks whether the guest agent is meant to be in the template. Whether it is cannot
// be seen before a machine runs.
func (e *examination) examineAgent(i int, p *settings.Pool, t *templateFound) {
	on := t.config.Agent()
	switch {
	case p.Guest.Agent && !on:
		e.add(Warn, "templates.agent", about(p, t.vmid), []string{fmt.Sprintf("qm set %d --agent 1 (on %s), if qemu-guest-agent is installed in it", t.vmid, t.host)},
			"%s.guest.agent is on, and template %d does not say that it has the agent", e.site.KeyOf(i), t.vmid)
	case p.Guest.Agent:
		e.ok("templates.agent", about(p, t.vmid), "the guest agent is switched on in template %d", t.vmid)
	}
}

// oldCPUs are types without the instructions of x86-64-v2, which many current images are built for.
var oldCPUs = []string{"kvm32", "kvm64", "qemu32", "qemu64"}

// examineCPU looks whether machines have a CPU that current images run on. A template that names
// none has kvm64: only the web interface has another default.
func (e *examination) examineCPU(i int, p *settings.Pool, t *templateFound) {
	is := cmp.Or(p.Guest.CPUType, t.config.CPUType(), "kvm64")
	if !slices.Contains(oldCPUs, is) {
		return
	}
	e.add(Warn, "templates.cpu", about(p, t.vmid), []string{
		e.site.KeyOf(i) + ".guest.cpuType: x86-64-v2-AES",
		fmt.Sprintf("qm set %d --cpu x86-64-v2-AES (on %s)", t.vmid, t.host),
	}, "machines of pool %s get the CPU type %s, without the instructions of x86-64-v2: many current system and container images do not run on it", p.Name, is)
}

// examineTraits notes what clones inherit and do not keep.
func (e *examination) examineTraits(p *settings.Pool, t *templateFound) {
	if script := t.config.Raw["hookscript"]; script != "" {
		e.add(Fail, "templates.hookscript", about(p, t.vmid), []string{fmt.Sprintf("qm set %d --delete hookscript (on %s)", t.vmid, t.host)},
			"template %d has the hookscript %s: clones would have it, and only root@pam may take it out", t.vmid, script)
	}
	var traits []string
	if t.config.Protection {
		traits = append(traits, "protection")
	}
	if t.config.Onboot {
		traits = append(traits, "start at boot")
	}
	if len(t.config.Tags) > 0 {
		traits = append(traits, "the tags "+strings.Join(t.config.Tags, ", "))
	}
	if len(traits) > 0 {
		e.ok("templates.traits", about(p, t.vmid), "template %d has %s, which machines are made without", t.vmid, strings.Join(traits, " and "))
	}
}

// examineReach looks which hosts a pool's machines can be cloned to.
func (e *examination) examineReach(i int, p *settings.Pool) {
	var reached []string
	unknown := 0
	for _, host := range e.placed(p) {
		id := p.Template.On(host)
		t := e.templates[id]
		if t != nil && (t.err != nil || t.absent || !t.config.Template) {
			unknown = id
			e.block(host, p.Name)
			e.unsure[p.Name] = e.unsure[p.Name] || t.err != nil
			continue
		}
		if why, fix := e.unreached(i, p, host); why != "" {
			e.block(host, p.Name)
			e.add(Warn, "templates.reach", host+" for pool "+p.Name, fix, "%s can never carry machines of pool %s: %s", host, p.Name, why)
			continue
		}
		reached = append(reached, host)
	}
	if unknown != 0 {
		e.skip("templates.reach", fmt.Sprintf("%d for pool %s", unknown, p.Name), "not looked at: template %d is not there, or cannot be read", unknown)
	}
	if len(reached) > 0 {
		e.ok("templates.reach", "pool "+p.Name, "machines of pool %s can be cloned to %s", p.Name, strings.Join(reached, ", "))
	}
}

// placed are the hosts that may carry a pool's machines, whether or not there is a template for
// them.
func (e *examination) placed(p *settings.Pool) []string {
	return e.candidates(&settings.Pool{Placement: p.Placement})
}

// unreached says why a machine cannot be cloned to a host, and what fixes it.
func (e *examination) unreached(i int, p *settings.Pool, host string) (why string, fix []string) {
	id := p.Template.On(host)
	if id == 0 {
		return "template.byHost has no template for it", []string{fmt.Sprintf("%s.template.byHost.%s: the VMID of a template there", e.site.KeyOf(i), host)}
	}
	t := e.templates[id]
	local := e.localStorage(p, t)
	switch {
	case t.host == host:
		return "", nil
	case local == "":
		return e.parted(t, host)
	}
	return fmt.Sprintf("template %d is on %s, and its storage %s is not shared", id, t.host, local), []string{
		fmt.Sprintf("vzdump %d --storage SHARED (on %s); qmrestore ARCHIVE NEWID --storage %s; qm template NEWID (on %s)", id, t.host, pveapi.Shell(local), host),
		fmt.Sprintf("%s.template: {byHost: {%s: %d, %s: NEWID}}", e.site.KeyOf(i), t.host, id, host),
	}
}

// parted says which disc in a drive of the template keeps clones of it from another host, and how
// to eject it.
func (v *inventory) parted(t *templateFound, host string) (why string, fix []string) {
	for _, drive := range slices.Sorted(maps.Keys(t.config.Disks)) {
		d := t.config.Disks[drive]
		if !d.Disc() {
			continue
		}
		switch _, there := v.store(host, d.Storage); {
		case !v.shares(t.host, d.Storage):
			why = "is not shared, or the token may not see it"
		case !there:
			why = "is not on " + host
		default:
			continue
		}
		return fmt.Sprintf("template %d is on %s, with a disc in its drive %s whose storage %s %s", t.vmid, t.host, drive, d.Storage, why),
			[]string{fmt.Sprintf("qm set %d --%s none,media=cdrom (on %s)", t.vmid, drive, t.host)}
	}
	return "", nil
}

// shares reports whether a host shares a storage with others. Of one whose storages cannot be read
// that is not known, and said elsewhere.
func (v *inventory) shares(host, name string) bool {
	s, there := v.store(host, name)
	return there && s.Shared || v.storesOf(host).err != nil
}

// localStorage is one that keeps clones of the template on its host, or empty.
func (v *inventory) localStorage(p *settings.Pool, t *templateFound) string {
	names := t.config.Parts().Storages
	if p.Storage != "" {
		names = append(names, p.Storage)
	}
	for _, name := range names {
		if s, ok := v.store(t.host, name); ok && !s.Shared {
			return name
		}
	}
	return ""
}
