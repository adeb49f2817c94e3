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
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/ha"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Load makes a cluster of a saved one, and lets its time go on. Of the configuration only what is
// about time can be another: the speed, which is always that of with, and how long machines take,
// if with says so.
func Load(r io.Reader, with world.Config) (*Cluster, error) {
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
	if err := s.Config.Validate(); err != nil {
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
	c.Clock, c.Began, c.Options, c.Faults.Put = s.Now, s.Began, notNil(s.Options), s.Injected
	for _, of := range s.Hosts {
		c.Nodes = append(c.Nodes, of.restore())
	}
	var wrong []error
	for _, of := range s.Storages {
		c.Storages[of.Storage.Name] = of.restore()
	}
	for _, of := range s.Guests {
		m := of.restore()
		if m.Host = c.Node(of.Host); m.Host == nil {
			wrong = append(wrong, faults.WrongValue(fmt.Sprintf("guests: %d: host", of.ID), "one of the hosts", of.Host))
		}
		c.VMs[of.ID] = m
	}
	for _, of := range s.Pools {
		p := access.NewPool(of.Name, of.Comment)
		for _, id := range of.Guests {
			p.Vms[id] = true
		}
		for _, name := range of.Storages {
			p.Storages[name] = true
		}
		c.Access.Pools[of.Name] = p
	}
	for i, of := range s.Hosts {
		wrong = append(wrong, c.restoreViews(c.Nodes[i], &of))
	}
	wrong = append(wrong, c.restoreHA(&s.HA), c.restoreChance(s.Chance), c.restoreFaults(s.Faults))
	s.Access.Restore(c.Access)
	for _, l := range s.Lost {
		c.Lost[[2]int{l.From, l.To}] = l.Since
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

func (s *savedHost) restore() *world.Node {
	h := &world.Node{
		Host: s.Host, ID: s.ID, IP: s.IP, Up: s.Up, Island: s.Island, Members: map[*world.Node]bool{}, Heard: map[*world.Node]*world.Report{},
		Serving: map[*engine.Process]bool{}, PIDs: s.PIDs, Since: s.Since, Zone: s.Zone, Tells: s.Tells, Returns: s.Returns, Follows: s.Follows, Starting: s.Starting,
	}
	h.RestartWorkers()
	return h
}

// restoreViews gives a host back what it knows of others, and its tasks.
func (c *Cluster) restoreViews(h *world.Node, s *savedHost) error {
	var wrong []error
	other := func(name string) *world.Node {
		of := c.Node(name)
		if of == nil {
			wrong = append(wrong, faults.WrongValue("hosts: "+h.Name, "about the hosts", name))
		}
		return of
	}
	for _, name := range s.Members {
		h.Members[other(name)] = true
	}
	if s.Known != nil {
		h.Known = map[int]world.GuestPlace{}
		for id, at := range s.Known {
			h.Known[id] = world.GuestPlace{Host: other(at.Host), Tags: at.Tags, Lock: at.Lock}
		}
	}
	for name, r := range s.Heard {
		h.Heard[other(name)] = r
	}
	for _, t := range s.Tasks {
		t.Host = h
		h.Tasks = append(h.Tasks, &t)
	}
	return errors.Join(wrong...)
}

func (s *savedGuest) restore() *world.Guest {
	m := &world.Guest{
		Config: vmconf.Config{Conf: notNil(s.Conf), Pending: notNil(s.Pending), Forced: s.Forced, Made: s.Made},
		ID:     s.ID, State: s.State, Since: s.Since, PID: s.PID,
		Awake: s.Awake, Agent: s.Agent, Boots: s.Boots, Execs: s.Execs, Files: s.Files, Firewall: s.Firewall,
	}
	for _, of := range s.Snapshots {
		of.Conf = notNil(of.Conf)
		m.Snaps = append(m.Snaps, of)
	}
	if s.Seed != nil {
		m.Seed = &world.Seed{User: s.Seed[0], Network: s.Seed[1], Meta: s.Seed[2]}
	}
	return m
}

func (s *savedStorage) restore() *world.Store {
	out := world.NewStorage(s.Storage)
	out.Conf = notNil(s.Conf)
	for _, v := range s.Volumes {
		if out.Volumes[v.Place] == nil {
			out.Volumes[v.Place] = map[string]*world.Volume{}
		}
		out.Volumes[v.Place][v.Name] = &v.Volume
	}
	return out
}

func (c *Cluster) restoreHA(s *savedHA) error {
	var wrong []error
	a := c.HA
	a.Resources, a.Groups, a.Rules, a.Ordinal = notNil(s.Resources), notNil(s.Groups), notNil(s.Rules), s.Ordinal
	a.Stamp, a.Away, a.Next, a.Wishes, a.Master = s.Stamp, notNil(s.Away), s.Next, s.Wishes, c.Node(s.Master)
	for sid, of := range s.Services {
		h := c.Node(of.Host)
		if h == nil {
			wrong = append(wrong, faults.WrongValue("ha: "+sid+": host", "one of the hosts", of.Host))
		}
		a.Services[sid] = &world.Service{Host: h, State: of.State, Goal: c.Node(of.Goal), Fails: of.Fails, Limit: of.Limit}
	}
	return errors.Join(wrong...)
}

func (c *Cluster) restoreChance(streams map[string][]byte) error {
	for name, state := range streams {
		pcg := &rand.PCG{}
		if err := pcg.UnmarshalBinary(state); err != nil {
			return fmt.Errorf("chance: %s: %w", name, err)
		}
		c.Chance[name] = pcg
	}
	return nil
}

func (c *Cluster) restoreFaults(all []savedFault) error {
	for _, of := range all {
		read, err := faults.Parse(of.Line)
		if err != nil || len(read) != 1 {
			return fmt.Errorf("faults: must be one fault, was %q: %w", of.Line, err)
		}
		if err := c.Knows(read[0]); err != nil {
			return fmt.Errorf("faults: %w", err)
		}
		in := c.Faults.Restore(&faults.Injected{Fault: read[0], Number: of.Number, Since: of.Put, On: of.On, Seen: of.Seen, Struck: of.Struck})
		c.Afoot = append(c.Afoot, &world.Fault{Injected: in, Acts: of.Acts, Loaded: c.Clock})
	}
	return nil
}

// resume starts again what went on by itself.
func (c *Cluster) resume(s *savedCluster) {
	c.Cut()
	for _, h := range c.Nodes {
		c.GoOn(h)
		if !h.Returns.IsZero() {
			c.ReturnLater(h)
		}
		if !h.Follows.IsZero() {
			ha.Resume(c.World, h)
		}
		if h.Starting {
			c.StartGuests(h)
		}
	}
	if !s.Until.IsZero() {
		c.Moving, c.Until = true, s.Until
		c.AgreeLater()
	}
	for _, of := range s.Guests {
		if !of.BootsUntil.IsZero() {
			c.Boot(c.VMs[of.ID], of.BootsUntil.Sub(c.Clock))
		}
	}
	if s.HA.Awake {
		c.HA.GoOn()
	}
	loaded := c.Afoot
	c.Afoot = nil
	for _, f := range loaded {
		c.Enliven(f)
	}
}
