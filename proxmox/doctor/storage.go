package doctor

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// store is a storage as a host sees it, and whether it does.
func (v *inventory) store(host, name string) (pveapi.StorageStatus, bool) {
	for _, s := range v.storesOf(host).list {
		if s.Name == name {
			return s, true
		}
	}
	return pveapi.StorageStatus{}, false
}

// storesOf reads a host's storages, once.
func (v *inventory) storesOf(host string) storesOn {
	if v.stores == nil {
		v.stores = map[string]storesOn{}
	}
	on, read := v.stores[host]
	if !read {
		on.list, on.err = v.client.Storages(v.ctx, host)
		v.stores[host] = on
	}
	return on
}

// storageExam looks whether disks and discs can be made.
type storageExam struct{ *examination }

// place is a storage on a host, and what it is needed for.
type place struct {
	storage, host string
	content       string // images or iso
	pools         []string
	takes         map[string]room // by pool
	reserve       pricing.Bytes
}

// room is what one machine of each shape of a pool takes of a storage.
type room struct {
	made  pricing.Bytes // when they are made
	grown pricing.Bytes // when their disks are full
}

// places are where disks and discs of the pools are made. Of a template that cannot be read it is
// not known where its disks lie; storages that the configuration names are looked at all the same.
func (e *storageExam) places() []*place {
	var all []*place
	add := func(storage, host, content string, p *settings.Pool, takes room) {
		i := slices.IndexFunc(all, func(a *place) bool { return a.storage == storage && a.host == host && a.content == content })
		if i < 0 {
			i, all = len(all), append(all, &place{storage: storage, host: host, content: content, takes: map[string]room{}})
		}
		all[i].pools = append(all[i].pools, p.Name)
		all[i].takes[p.Name] = takes
		all[i].reserve = max(all[i].reserve, p.Placement.StorageReserve)
	}
	for i := range e.site.Pools {
		p := &e.site.Pools[i]
		for _, host := range e.candidates(p) {
			t := e.templates[p.Template.On(host)]
			if t.known() {
				if why, _ := e.unreached(i, p, host); why != "" {
					continue // it is never chosen
				}
			}
			config := t.asRead()
			names := []string{p.Storage}
			if p.Storage == "" {
				names = config.Parts().Storages
			}
			for _, name := range names {
				if name == config.Disks[config.BootDisk()].Storage || p.Storage != "" {
					add(name, host, "images", p, eachShape(p, &config))
				} else {
					add(name, host, "images", p, room{})
				}
			}
			if p.NeedsDisc() {
				add(p.ISO.Storage, host, "iso", p, room{})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.storage, b.storage), cmp.Compare(a.content, b.content), cmp.Compare(a.host, b.host))
	})
	return all
}

// eachShape is what one machine of each shape takes. A linked clone begins with nothing.
func eachShape(p *settings.Pool, template *pveapi.VMConfig) room {
	var r room
	disk := pricing.Bytes(template.Disks[template.BootDisk()].Size)
	for _, s := range p.Shapes {
		r.grown += max(s.Disk, disk)
	}
	if p.Clone == placement.Full {
		r.made = r.grown
	}
	return r
}

// examineStorage looks whether disks and discs can be made where they are to be. A shared storage
// has one room, whichever host it is looked at from. First-boot discs are small and soon removed,
// so that any room will do for them.
func (e *storageExam) examineStorage() {
	for i := range e.site.Pools {
		e.skipUnplaced(&e.site.Pools[i])
	}
	var rooms []*place
	seen := map[*place]pveapi.StorageStatus{}
	for _, p := range e.places() {
		s, ok := e.examineStore(p)
		if !ok || p.content == "iso" && (!s.Sized || s.Avail > 0) {
			continue
		}
		i := slices.IndexFunc(rooms, func(r *place) bool { return r.storage == p.storage && (s.Shared || r.host == p.host) })
		if i < 0 {
			rooms = append(rooms, p)
			seen[p] = s
			continue
		}
		maps.Copy(rooms[i].takes, p.takes)
		rooms[i].reserve = max(rooms[i].reserve, p.reserve)
	}
	for _, p := range rooms {
		e.examineRoom(p, seen[p])
	}
}

// skipHostless reports a pool none of whose hosts is there to be looked at, and reports whether it
// is one.
func (e *examination) skipHostless(id string, p *settings.Pool) bool {
	none := len(e.candidates(p)) == 0
	if none {
		e.skip(id, "pool "+p.Name, "not looked at for pool %s: none of the hosts that may carry its machines is online", p.Name)
	}
	return none
}

// skipUnplaced reports a pool of which it cannot be known where its disks lie: that says a
// template, which cannot be read.
func (e *storageExam) skipUnplaced(p *settings.Pool) {
	if e.skipHostless("storage.there", p) || p.Storage != "" {
		return
	}
	for _, id := range p.Template.IDs() {
		if !e.templates[id].known() {
			e.skip("storage.there", about(p, id), "not looked at where disks of pool %s lie: template %d, which says it, is not there, or cannot be read", p.Name, id)
		}
	}
}

// examineStore looks whether a host has a storage for what is to be kept there.
func (e *storageExam) examineStore(p *place) (pveapi.StorageStatus, bool) {
	subject := p.storage + " on " + p.host + " for " + p.content
	path := "/storage/" + p.storage
	if !e.have.Has(path, "Datastore.Audit") && !e.have.Has(path, "Datastore.AllocateSpace") {
		e.skip("storage.there", subject, "not looked at: it takes Datastore.Audit on %s", path)
		return pveapi.StorageStatus{}, false
	}
	if err := e.storesOf(p.host).err; err != nil {
		e.failed("storage.there", subject, err)
		return pveapi.StorageStatus{}, false
	}
	s, there := e.store(p.host, p.storage)
	what := map[string]string{"images": "disks", "iso": "first-boot discs"}[p.content]
	fault := func(id, fix, format string, args ...any) {
		e.add(e.block(p.host, p.pools...), id, subject, []string{fix}, format, args...)
	}
	switch {
	case !there && e.nowhere(p.storage):
		e.examineMissing(p, what)
	case !there:
		fault("storage.there", "pvesm set "+pveapi.Shell(p.storage)+" --nodes "+strings.Join(e.all, ",")+" (if "+p.host+" reaches it), or placement.hosts without "+p.host,
			"%s has no storage %s, where the %s of %s are to be kept", p.host, p.storage, what, poolsOf(p.pools))
	case !s.Enabled:
		fault("storage.there", "pvesm set "+pveapi.Shell(p.storage)+" --disable 0", "storage %s is disabled", p.storage)
	case !s.Active:
		fault("storage.there", "pvesm status --storage "+pveapi.Shell(p.storage)+" (on "+p.host+")", "storage %s is not active on %s", p.storage, p.host)
	case !slices.Contains(s.Content, p.content):
		fault("storage.content", "pvesm set "+pveapi.Shell(p.storage)+" --content "+strings.Join(union(s.Content, []string{p.content}), ","),
			"storage %s on %s does not take %s (%s): its content is %s", p.storage, p.host, what, p.content, strings.Join(s.Content, ", "))
	default:
		e.ok("storage.there", subject, "%s keeps the %s of %s on %s", p.storage, what, poolsOf(p.pools), p.host)
		return s, true
	}
	return s, false
}

// nowhere reports whether no host has a storage. Of one that is offline, or does not answer, that
// is not known.
func (v *inventory) nowhere(name string) bool {
	return len(v.hosts) == len(v.all) && !slices.ContainsFunc(v.hosts, func(host string) bool {
		_, there := v.store(host, name)
		return there || v.storesOf(host).err != nil
	})
}

// examineMissing reports once a storage that is on no host at all: no host can be let reach it, so
// it must be made, or another be named.
func (e *storageExam) examineMissing(p *place, what string) {
	e.block(p.host, p.pools...)
	subject := p.storage + " for " + p.content
	if slices.ContainsFunc(e.found.Checks, func(c Check) bool { return c.ID == "storage.there" && c.Subject == subject }) {
		return
	}
	e.add(Fail, "storage.there", subject, []string{
		e.storageKey(p) + ": " + cmp.Or(strings.Join(e.taking(p.host, p.content), " or "), "a storage that takes "+p.content),
		"pvesm add TYPE " + pveapi.Shell(p.storage) + " --content " + p.content + " (and what its type asks for), if it was forgotten",
	}, "no host has a storage %s, where the %s of %s are to be kept", p.storage, what, poolsOf(p.pools))
}

// storageKey is the key that names the storage for the first of the place's pools.
func (e *storageExam) storageKey(p *place) string {
	i := slices.IndexFunc(e.site.Pools, func(pool settings.Pool) bool { return pool.Name == p.pools[0] })
	if p.content == "iso" {
		return e.site.KeyOf(i) + ".iso.storage"
	}
	return e.site.KeyOf(i) + ".storage"
}

// taking are the storages of a host that take such content, as far as the token sees them.
func (v *inventory) taking(host, content string) []string {
	var names []string
	for _, s := range v.storesOf(host).list {
		if slices.Contains(s.Content, content) {
			names = append(names, s.Name)
		}
	}
	return names
}

func poolsOf(names []string) string {
	if len(names) == 1 {
		return "pool " + names[0]
	}
	return "pools " + strings.Join(names, " and ")
}

// nearlyFull is the part of a storage that is in use when a person should know: thin disks grow
// into what is left.
const nearlyFull = 0.9

// examineRoom looks whether a storage has room for one machine of each shape.
func (e *storageExam) examineRoom(p *place, s pveapi.StorageStatus) {
	subject := p.storage
	if !s.Shared {
		subject += " on " + p.host
	}
	if !s.Sized {
		e.add(Warn, "storage.room", subject, nil, "how much room %s has is not known", subject)
		return
	}
	var all room
	for _, r := range p.takes {
		all.made, all.grown = all.made+r.made, all.grown+r.grown
	}
	free := pricing.Bytes(s.Avail)
	fix := []string{"make room on " + subject + ", or name another storage: pvesm status"}
	switch {
	case free == 0:
		e.add(Fail, "storage.room", subject, fix, "%s is full", subject)
	case free < all.made+p.reserve:
		e.add(Fail, "storage.room", subject, fix, "%s has %s free: %s for one machine of each shape and %s in reserve are more", subject, placement.Size(free), placement.Size(all.made), placement.Size(p.reserve))
	case free < all.grown+p.reserve:
		e.add(Warn, "storage.room", subject, fix, "%s has %s free: one machine of each shape can be made, and may grow to %s", subject, placement.Size(free), placement.Size(all.grown))
	case float64(s.Used) > nearlyFull*float64(s.Total):
		e.add(Warn, "storage.room", subject, fix, "%s is %d %% full: %s are free, and disks grow", subject, 100*s.Used/s.Total, placement.Size(free))
	default:
		e.ok("storage.room", subject, "%s has %s free", subject, placement.Size(free))
	}
}
