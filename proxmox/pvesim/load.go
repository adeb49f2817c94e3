package pvesim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Load makes a cluster of a saved one, and lets its time go on. Of the configuration only what is
// about time can be another: the speed, which is always that of with, and how long machines take,
// if with says so.
func Load(r io.Reader, with Config) (*Cluster, error) {
	var s savedCluster
	dec := json.NewDecoder(r)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("saved cluster: %w", err)
	}
	if s.Format != savedFormat {
		return nil, fmt.Errorf("saved cluster: format: must be %s, was %q", savedFormat, s.Format)
	}
	if with.Times != (timing.Machine{}) {
		s.Config.Times = with.Times
	}
	s.Config.Speed = with.Speed
	if err := s.Config.validate(); err != nil {
		return nil, fmt.Errorf("saved cluster: config: %w", err)
	}
	c := blank(s.Config)
	if err := c.restore(&s); err != nil {
		return nil, fmt.Errorf("saved cluster: %w", err)
	}
	c.With(func() { c.resume(&s) })
	c.Engine.Begin()
	return c, nil
}

// restore puts everything back where it was.
func (c *Cluster) restore(s *savedCluster) error {
	c.Clock, c.began, c.options, c.faults.Put = s.Now, s.Began, notNil(s.Options), s.Injected
	for _, of := range s.Hosts {
		c.hosts = append(c.hosts, of.restore())
	}
	var wrong []error
	for _, of := range s.Storages {
		c.storages[of.Storage.Name] = of.restore()
	}
	for _, of := range s.Guests {
		m := of.restore()
		if m.host = c.host(of.Host); m.host == nil {
			wrong = append(wrong, faults.WrongValue(fmt.Sprintf("guests: %d: host", of.ID), "one of the hosts", of.Host))
		}
		c.vms[of.ID] = m
	}
	for _, of := range s.Pools {
		p := access.NewPool(of.Name, of.Comment)
		for _, id := range of.Guests {
			p.Vms[id] = true
		}
		for _, name := range of.Storages {
			p.Storages[name] = true
		}
		c.access.Pools[of.Name] = p
	}
	for i, of := range s.Hosts {
		wrong = append(wrong, c.restoreViews(c.hosts[i], &of))
	}
	wrong = append(wrong, c.restoreHA(&s.HA), c.restoreChance(s.Chance), c.restoreFaults(s.Faults))
	s.Access.Restore(c.access)
	for _, l := range s.Lost {
		c.lost[[2]int{l.From, l.To}] = l.Since
	}
	return errors.Join(wrong...)
}

// notNil is a map that can be written to.
func notNil[K comparable, V any](m map[K]V) map[K]V {
	if m == nil {
		return map[K]V{}
	}
	return m
}

func (s *savedHost) restore() *host {
	h := &host{
		Host: s.Host, id: s.ID, ip: s.IP, up: s.Up, island: s.Island, members: map[*host]bool{}, heard: map[*host]*report{},
		serving: map[*engine.Process]bool{}, pids: s.PIDs, since: s.Since, zone: s.Zone, tells: s.Tells, returns: s.Returns, follows: s.Follows, starting: s.Starting,
	}
	h.restartWorkers()
	return h
}

// restoreViews gives a host back what it knows of others, and its tasks.
func (c *Cluster) restoreViews(h *host, s *savedHost) error {
	var wrong []error
	other := func(name string) *host {
		of := c.host(name)
		if of == nil {
			wrong = append(wrong, faults.WrongValue("hosts: "+h.Name, "about the hosts", name))
		}
		return of
	}
	for _, name := range s.Members {
		h.members[other(name)] = true
	}
	if s.Known != nil {
		h.known = map[int]guestPlace{}
		for id, at := range s.Known {
			h.known[id] = guestPlace{other(at.Host), at.Tags, at.Lock}
		}
	}
	for name, r := range s.Heard {
		h.heard[other(name)] = r
	}
	for _, t := range s.Tasks {
		h.tasks = append(h.tasks, &task{
			upid: t.UPID, host: h, pid: t.PID, pstart: t.PStart, kind: t.Kind, id: t.ID, user: t.User, token: t.Token, start: t.Start,
			end: t.End, exit: t.Exit, log: t.Log,
		})
	}
	return errors.Join(wrong...)
}

func (s *savedGuest) restore() *vm {
	m := &vm{
		Config: vmconf.Config{Conf: notNil(s.Conf), Pending: notNil(s.Pending), Forced: s.Forced, Made: s.Made},
		id:     s.ID, state: s.State, since: s.Since, pid: s.PID,
		awake: s.Awake, agent: s.Agent, boots: s.Boots, execs: s.Execs, files: s.Files, fw: s.Firewall,
	}
	for _, of := range s.Snapshots {
		m.Snaps = append(m.Snaps, vmconf.Snapshot{Name: of.Name, Description: of.Description, At: of.At, Conf: notNil(of.Conf), Parent: of.Parent, State: of.State})
	}
	if s.Seed != nil {
		m.seed = &seed{user: s.Seed[0], network: s.Seed[1], meta: s.Seed[2]}
	}
	return m
}

func (s *savedStorage) restore() *storage {
	out := newStorage(s.Storage)
	out.conf = notNil(s.Conf)
	for _, v := range s.Volumes {
		if out.volumes[v.Place] == nil {
			out.volumes[v.Place] = map[string]*volume{}
		}
		out.volumes[v.Place][v.Name] = &volume{
			name: v.Name, content: v.Content, format: v.Format, size: v.Size, vmid: v.VMID, at: v.At, parent: v.Parent, guest: v.Guest,
			data: v.Data, notes: v.Notes,
		}
	}
	return out
}

func (c *Cluster) restoreHA(s *savedHA) error {
	var wrong []error
	a := c.ha
	a.resources, a.groups, a.rules, a.ordinal = notNil(s.Resources), notNil(s.Groups), notNil(s.Rules), s.Ordinal
	a.stamp, a.away, a.next, a.wishes, a.master = s.Stamp, notNil(s.Away), s.Next, s.Wishes, c.host(s.Master)
	for sid, of := range s.Services {
		h := c.host(of.Host)
		if h == nil {
			wrong = append(wrong, faults.WrongValue("ha: "+sid+": host", "one of the hosts", of.Host))
		}
		a.services[sid] = &service{host: h, state: of.State, goal: c.host(of.Goal), fails: of.Fails}
	}
	return errors.Join(wrong...)
}

func (c *Cluster) restoreChance(streams map[string][]byte) error {
	for name, state := range streams {
		pcg := &rand.PCG{}
		if err := pcg.UnmarshalBinary(state); err != nil {
			return fmt.Errorf("chance: %s: %w", name, err)
		}
		c.chance[name] = pcg
	}
	return nil
}

func (c *Cluster) restoreFaults(all []savedFault) error {
	for _, of := range all {
		read, err := faults.Parse(of.Line)
		if err != nil || len(read) != 1 {
			return fmt.Errorf("faults: must be one fault, was %q: %w", of.Line, err)
		}
		if err := c.knows(read[0]); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
		in := c.faults.Restore(&faults.Injected{Fault: read[0], Number: of.Number, Since: of.Put, On: of.On, Seen: of.Seen, Struck: of.Struck})
		c.afoot = append(c.afoot, &fault{Injected: in, acts: of.Acts, loaded: c.Clock})
	}
	return nil
}

// resume starts again what went on by itself.
func (c *Cluster) resume(s *savedCluster) {
	c.cut()
	for _, h := range c.hosts {
		c.goOn(h)
		if !h.returns.IsZero() {
			c.returnLater(h)
		}
		if !h.follows.IsZero() {
			managerOf(c.World).followLater(h)
		}
		if h.starting {
			c.startGuests(h)
		}
	}
	if !s.Until.IsZero() {
		c.moving, c.until = true, s.Until
		c.agreeLater()
	}
	for _, of := range s.Guests {
		if !of.BootsUntil.IsZero() {
			c.boot(c.vms[of.ID], of.BootsUntil.Sub(c.Clock))
		}
	}
	if s.HA.Awake {
		c.ha.goOn()
	}
	loaded := c.afoot
	c.afoot = nil
	for _, f := range loaded {
		c.enliven(f)
	}
}
