package doctor

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// examineCluster looks whether there is quorum, and how the hosts are.
func (e *examination) examineCluster() {
	status, err := e.client.ClusterStatus(e.ctx)
	if err != nil {
		e.failed("cluster.quorum", "", err)
		e.guessHosts()
	} else {
		e.examineQuorum(status)
		for _, n := range status.Nodes {
			e.all = append(e.all, n.Name)
			if !n.Online {
				e.add(Warn, "cluster.host", n.Name, nonEmpty(pveapi.HostUnreachable.Advice()), "%s is offline: its machines are unknown, and it gets no new ones", n.Name)
				continue
			}
			e.hosts = append(e.hosts, n.Name)
			e.ok("cluster.host", n.Name, "%s is online", n.Name)
		}
	}
	e.examineNamedHosts()
	e.examineMaintenance()
	for _, h := range e.hosts {
		e.examineClock(h)
	}
}

func (e *examination) examineQuorum(s pveapi.ClusterStatus) {
	if !s.Quorate {
		e.add(Fail, "cluster.quorum", "", []string{"pvecm status"}, "the host that was asked has no quorum: nothing can be changed until it is back")
		return
	}
	e.ok("cluster.quorum", "", "there is quorum")
}

// guessHosts takes the hosts from a list that everybody may see.
func (v *inventory) guessHosts() {
	v.look()
	for _, r := range v.resources {
		if r.Type != "node" {
			continue
		}
		v.all = append(v.all, r.Node)
		if r.Status == "online" {
			v.hosts = append(v.hosts, r.Node)
		}
	}
}

// look reads the list of what is in the cluster, once.
func (v *inventory) look() {
	if v.looked {
		return
	}
	v.looked = true
	var err error
	if v.resources, err = v.client.Resources(v.ctx); err != nil {
		v.failed("cluster.list", "", err)
	}
}

// examineNamedHosts looks for the hosts that the configuration names.
func (e *examination) examineNamedHosts() {
	if len(e.all) == 0 {
		return
	}
	for i, p := range e.site.Pools {
		e.examineNamed(e.site.KeyOf(i)+".placement.hosts", p.Placement.Hosts)
		e.examineNamed(e.site.KeyOf(i)+".placement.maintenance", p.Placement.Maintenance)
		e.examineNamed(e.site.KeyOf(i)+".template.byHost", slices.Sorted(maps.Keys(p.Template.ByHost)))
	}
}

func (e *examination) examineNamed(key string, hosts []string) {
	for _, host := range hosts {
		if !slices.Contains(e.all, host) {
			e.add(Fail, "cluster.named", key+": "+host, []string{key + ": of " + strings.Join(e.all, ", ")}, "%s names %s, and the cluster has no such host", key, host)
		}
	}
}

// examineMaintenance says which hosts are in maintenance.
func (e *examination) examineMaintenance() {
	e.look()
	for _, r := range e.resources {
		if r.Type == "node" && r.HAState == "maintenance" {
			e.add(Warn, "cluster.maintenance", r.Node, []string{"ha-manager crm-command node-maintenance disable " + pveapi.Shell(r.Node)}, "%s is in maintenance: it gets no new machines", r.Node)
		}
	}
	if !e.checked("cluster.maintenance") {
		e.ok("cluster.maintenance", "", "no host is in maintenance")
	}
}

const (
	// slowClock is more than the network takes, and wildClock what breaks certificates and logs.
	slowClock = 5 * time.Second
	wildClock = 5 * time.Minute
)

// examineClock compares a host's clock with ours. Both decide how old a machine is, and whether a
// certificate holds.
func (e *examination) examineClock(host string) {
	asked := e.now()
	at, err := e.client.HostTime(e.ctx, host)
	if err != nil {
		e.failed("cluster.clock", host, err)
		return
	}
	off := at.Sub(asked.Add(e.now().Sub(asked) / 2)).Round(time.Second)
	fix := []string{"chronyc tracking (on " + host + ", and here)"}
	switch {
	case off.Abs() > wildClock:
		e.add(Fail, "cluster.clock", host, fix, "the clock of %s differs by %s from the one here", host, pricing.Short(off.Abs()))
	case off.Abs() > slowClock:
		e.add(Warn, "cluster.clock", host, fix, "the clock of %s differs by %s from the one here", host, pricing.Short(off.Abs()))
	default:
		e.ok("cluster.clock", host, "the clock of %s is right", host)
	}
}
