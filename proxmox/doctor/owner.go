package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// examineOwners reports machines in a pool that are another cluster's, or that do not name theirs.
func (e *poolsExam) examineOwners(i int, fleet *pve.Fleet) {
	p := &e.site.Pools[i]
	others, silent := map[string][]string{}, []string{}
	for cluster, ids := range fleet.Clusters(p.Name) {
		for _, id := range ids {
			switch cluster {
			case "":
				silent = append(silent, strconv.Itoa(id))
			case e.cluster:
			default:
				others[cluster] = append(others[cluster], strconv.Itoa(id))
			}
		}
	}
	subject := "pool " + p.Name
	if len(silent) > 0 && !e.site.AdoptUnmarked {
		e.add(Warn, "machines.unmarked", subject, []string{"adoptUnmarked: true, if they are this cluster's"},
			"the notes of VMs %s do not name the cluster that they belong to: they are never stopped or destroyed", strings.Join(silent, ", "))
	}
	if len(others) == 0 || e.cluster == "" && len(others) == 1 {
		return // whose they are cannot be said, or all are one cluster's
	}
	var texts []string
	for _, uid := range slices.Sorted(maps.Keys(others)) {
		texts = append(texts, fmt.Sprintf("%s has the VMs %s", uid, strings.Join(others[uid], ", ")))
	}
	this := "which cluster this is is not known"
	if e.cluster != "" {
		this = "this cluster is " + e.cluster
	}
	e.add(Warn, "machines.otherCluster", subject, []string{"owner: another one for this cluster", e.site.KeyOf(i) + ".vmids: another range for this cluster"},
		"%s: other clusters have machines in pool %s, and the one with the oldest goes on alone: %s", this, p.Name, strings.Join(texts, "; "))
}
