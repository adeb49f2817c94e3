package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// examineShapes looks whether each shape of a pool fits one of its hosts, and returns the hosts
// that one fits at least. Hosts that lack something else count, so that all that is wrong is
// reported at once; what the pools' own machines take does not, for they come and go.
func (e *poolsExam) examineShapes(i int, p *settings.Pool) []string {
	hosts := e.placed(p)
	if len(hosts) == 0 {
		e.skipHostless("pools.shapes", p)
		return nil
	}
	g, unsized := e.grounds(hosts)
	if len(unsized) > 0 {
		e.skip("pools.shapes", "pool "+p.Name, "not looked at whether machines of pool %s fit on %s: it takes Sys.Audit on /nodes/%s to know its size",
			p.Name, inWords(unsized), unsized[0])
	}
	able, places := slices.Clone(unsized), p.Places()
	alone := placement.Ground{Sight: &placement.Sight{}}
	for j, s := range p.Shapes {
		var empty, now []string
		for _, h := range g.Hosts {
			if alone.NoRoom(places, s, &h) == nil {
				empty = append(empty, h.Name)
			}
			if g.NoRoom(places, s, &h) == nil {
				now = append(now, h.Name)
			}
		}
		able = union(able, now)
		if len(g.Hosts) == 0 || len(unsized) > 0 && len(now) == 0 {
			continue
		}
		e.examineShape(e.site.KeyOf(i), j, p, g, empty, now)
	}
	slices.Sort(able)
	return able
}

// examineShape says which hosts a shape fits.
func (e *poolsExam) examineShape(key string, j int, p *settings.Pool, g *placement.Ground, empty, now []string) {
	s := p.Shapes[j]
	subject := s.Name + " of pool " + p.Name
	takes := fmt.Sprintf("shape %s of pool %s, %s processors and %s,", s.Name, p.Name, s.CPU.Cores(), placement.Size(s.Memory))
	largest := slices.MaxFunc(g.Hosts, func(a, b placement.Host) int {
		return cmp.Or(cmp.Compare(a.Memory, b.Memory), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(b.Name, a.Name))
	})
	switch {
	case len(empty) == 0:
		alone := placement.Ground{Sight: &placement.Sight{}}
		all, each := alone.Room(p.Places(), &largest), ""
		if s.CPU > pricing.MilliCPU(largest.CPUs)*pricing.Core {
			each = fmt.Sprintf(", and one machine %d processors", largest.CPUs)
		}
		fix := fmt.Sprintf("%s.shapes[%d]: no more than a host has", key, j)
		if p.Placement.MemoryReserve > 0 {
			fix += fmt.Sprintf(", or less %s.placement.memoryReserve than %s", key, placement.Size(p.Placement.MemoryReserve))
		}
		e.add(Fail, "pools.shapes", subject, []string{fix},
			"%s fits no host, however empty: %s has %d processors and %s, of which machines may have %s and %s%s", takes,
			largest.Name, largest.CPUs, placement.Size(largest.Memory), all.CPU.Cores(), placement.Size(all.Memory), each)
	case len(now) == 0:
		e.add(Warn, "pools.shapes", subject, []string{"room on " + strings.Join(empty, " or ") + ": fewer or smaller machines of others there"},
			"%s would fit on %s, but machines of others have been promised that room", takes, inWords(empty))
	default:
		e.ok("pools.shapes", subject, "%s fits on %s", takes, strings.Join(now, ", "))
	}
}

// grounds are the hosts with what runs there, our own machines omitted, and the hosts whose size is
// not reported.
func (e *poolsExam) grounds(hosts []string) (g *placement.Ground, unsized []string) {
	g = &placement.Ground{Sight: &placement.Sight{Guests: map[int]*placement.Guest{}}}
	unsized = slices.Clone(hosts)
	for _, r := range e.resources {
		switch {
		case r.Type == "node" && slices.Contains(hosts, r.Node) && r.MaxCPU != nil && *r.MaxCPU > 0 && r.MaxMem != nil && *r.MaxMem > 0:
			g.Hosts = append(g.Hosts, placement.Host{Name: r.Node, CPUs: int(*r.MaxCPU), Memory: pricing.Bytes(*r.MaxMem)})
			unsized = slices.DeleteFunc(unsized, func(h string) bool { return h == r.Node })
		case r.VMID != 0 && !slices.ContainsFunc(e.site.Pools, func(p settings.Pool) bool { return e.ours(&p, r) }):
			g.Guests[r.VMID] = pve.SeenGuest(&r)
		}
	}
	return g, unsized
}
