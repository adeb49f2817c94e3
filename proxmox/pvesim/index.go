package pvesim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

var indexEndpoints = []endpoint{
	{method: "GET", path: "/", may: anybody, do: index("subdir", "version cluster nodes storage access pools")},
	{method: "GET", path: "/version", may: anybody, do: getVersion},
	{method: "GET", path: "/cluster", may: anybody, do: index("name", `acme backup backup-info bulk-action ceph config firewall
		ha jobs log mapping metrics notifications nextid options qemu replication resources status tasks sdn`)},
	{method: "GET", path: "/cluster/nextid", may: anybody, do: nextID, in: `vmid?:vmid`},
}

func getVersion(k *call) (any, error) {
	parts := strings.SplitN(k.World.Config.Release, ".", 3)
	return map[string]any{
		"version": k.World.Config.Release, "release": strings.Join(parts[:min(2, len(parts))], "."), "repoid": "14a22df35955d97d",
	}, nil
}

// nextID is the lowest free number, which is kept for no one; or whether one is free.
func nextID(k *call) (any, error) {
	if k.in.Has("vmid") {
		id := k.in.Int("vmid", 0)
		if k.World.Exists(k.entry, id) {
			return nil, failure.OfParameter("vmid", fmt.Sprintf("VM %d already exists", id))
		}
		return k.in["vmid"], nil
	}
	lower, upper := idRange(k.World)
	for id := lower; id < upper; id++ {
		if !k.World.Exists(k.entry, id) {
			return strconv.Itoa(id), nil
		}
	}
	return nil, failure.New("unable to get any free VMID in range [%d, %d]", lower, upper)
}

// idRange is where new numbers are looked for.
func idRange(c *world.World) (lower, upper int) {
	text, _ := c.Options["next-id"].(string)
	in := params.Values{}
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		in[key] = value
	}
	return in.Int("lower", 100), in.Int("upper", 1000000)
}
