package pve

import (
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// A host that is offline is a member of its cluster and is listed as one; one that left, by pvecm
// delnode, is not. What it had is gone once its VMIDs are free, and nobody is there any more to
// tell how its tasks ended.

const (
	// leftAfter is how long a host must be missing to have left, and leftLooks in how many looks: a
	// host that is reinstalled under its name is back before, and one look may show what is not so.
	// A node that lost its machine has stopped being ready long before.
	leftAfter = 15 * time.Minute
	leftLooks = 20
)

// absence is since when a host is missing from the cluster, for how long it was seen to be, and in
// how many looks.
type absence struct {
	since time.Time
	lasts time.Duration
	looks int
}

// missHosts notes which hosts that machines are or were on are none of the cluster's. It counts
// from the start whenever a look shows something else, or does not show all hosts by word of a
// majority.
func (lo *lookout) missHosts() {
	was, s := lo.view.missing, lo.view.seen
	lo.view.missing = map[string]absence{}
	if !s.Quorate || !s.Whole {
		return
	}
	for _, m := range lo.roster.machines {
		for _, host := range m.hosts() {
			if s.Host(host) != nil {
				continue
			}
			a := was[host]
			if a.looks == 0 {
				a.since = s.At
			}
			a.looks++
			a.lasts = lo.watch.since(a.since)
			lo.view.missing[host] = a
		}
	}
}

// hosts are those that a machine, its first-boot disc and its task are on.
func (m *tracked) hosts() []string {
	all := []string{m.Host}
	if m.Disc != "" {
		all = append(all, m.DiscHost)
	}
	if m.Task != nil {
		all = append(all, m.Task.Host)
	}
	return all
}

// left reports whether a host has left the cluster for good.
func (v *view) left(host string) bool {
	a := v.missing[host]
	return a.looks >= leftLooks && a.lasts >= leftAfter
}

// deserted reports whether a machine was on a host that has left, and nothing says that it runs.
// The host may have been parted from the others and run on: then the machine's node is ready.
func (ag *agenda) deserted(m *tracked) bool {
	if !ag.view.left(m.Host) || ag.view.seen.Guests[m.VMID] != nil || ag.cfg.Nodes != nil && ag.members.nodes == nil {
		return false
	}
	n, _ := ag.members.nodeOf(m)
	return !n.Ready && ag.members.contradicted(m) == nil
}

// settleLeft lets nobody wait for what was on hosts that have left. A task there has come to no end
// that could be seen. A disc there is out of reach; one on storage that others share is found among
// the orphans.
func (st *settler) settleLeft(m *tracked) {
	if m.Task != nil && st.view.left(m.Task.Host) && st.catalogue.pools[m.Pool] != nil {
		st.crew.ended(m, pveapi.TaskStatus{UPID: pveapi.UPID(m.Task.UPID), Exit: "unexpected status"})
	}
	if !m.Gone.IsZero() && m.Task == nil && m.Disc != "" && st.view.left(m.DiscHost) {
		m.Disc = ""
	}
}
