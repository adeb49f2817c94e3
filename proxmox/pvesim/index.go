package pvesim

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

var indexEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/", May: api.Anybody, Do: api.Index("subdir", "version cluster nodes storage access pools")},
	{Method: "GET", Path: "/version", May: api.Anybody, Do: getVersion},
	{Method: "GET", Path: "/cluster", May: api.Anybody, Do: api.Index("name", `acme backup backup-info bulk-action ceph config firewall
		ha jobs log mapping metrics notifications nextid options qemu replication resources status tasks sdn`)},
	{Method: "GET", Path: "/cluster/nextid", May: api.Anybody, Do: nextID, In: `vmid?:vmid`},
}

func getVersion(k *api.Call) (any, error) {
	parts := strings.SplitN(k.World.Config.Release, ".", 3)
	return map[string]any{
		"version": k.World.Config.Release, "release": strings.Join(parts[:min(2, len(parts))], "."), "repoid": "14a22df35955d97d",
	}, nil
}

// nextID is the lowest free number, which is kept for no one; or whether one is free.
func nextID(k *api.Call) (any, error) {
	if k.In.Has("vmid") {
		id := k.In.Int("vmid", 0)
		if k.World.Exists(k.Entry, id) {
			return nil, failure.OfParameter("vmid", fmt.Sprintf("VM %d already exists", id))
		}
		return k.In["vmid"], nil
	}
	lower, upper := idRange(k.World)
	for id := lower; id < upper; id++ {
		if !k.World.Exists(k.Entry, id) {
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
