package pve

import (
	"context"
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// meddle is what a person does at the cluster by hand.
func (l *life) meddle() {
	ours := []pvesim.VMState{}
	for _, v := range l.sim.Inventory().VMs {
		if l.mine(v) && v.Config["lock"] == "" && v.Config["name"] != "" {
			ours = append(ours, v)
		}
	}
	if len(ours) == 0 || l.rng.IntN(4) == 0 {
		l.makeStranger()
		return
	}
	v := ours[l.rng.IntN(len(ours))]
	c, ctx := l.root(), context.Background()
	var err error
	what := []string{"stop", "destroy", "rename", "untag", "renote", "unpool", "protect", "copy", "reidentify", "back up", "manage", "migrate", "add disk"}[l.rng.IntN(13)]
	takes := false // it is not ours any more
	switch what {
	case "stop":
		_, err = c.VM(v.Host, v.ID).Stop(ctx, false)
	case "destroy":
		if _, err = c.VM(v.Host, v.ID).Stop(ctx, true); err == nil {
			l.sim.Advance(5e9)
			_, err = c.VM(v.Host, v.ID).Destroy(ctx, true)
			l.sim.Advance(5e9)
		}
	case "rename":
		takes = true
		err = c.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"name": "mine-now"}, nil, "")
	case "untag":
		takes = strings.Contains(v.Config["description"], "stage=ready")
		err = c.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"tags": "keep"}, nil, "")
	case "renote":
		takes = true
		err = c.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"description": "precious"}, nil, "")
	case "unpool":
		takes = true
		err = l.asRoot("PUT", "/pools", map[string]any{"poolid": "plimsoll", "vms": fmt.Sprint(v.ID), "delete": 1})
	case "protect":
		err = c.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"protection": "1"}, nil, "")
	case "copy":
		l.copy(c, v)
		return
	case "add disk":
		if v.State != "running" || l.named != nil && !strings.Contains(v.Config["description"], "stage=ready") {
			return
		}
		if err = c.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"scsi1": "local-lvm:1"}, nil, ""); err == nil || l.changed(v) {
			l.disks[v.ID], l.perhaps[l.made[v.ID]] = true, true
		}
	case "back up":
		l.inject(fmt.Sprintf("lock vm=%d as=backup for=%ds", v.ID, 10+l.rng.IntN(120)))
	case "manage":
		err = l.asRoot("POST", "/cluster/ha/resources", map[string]any{"sid": fmt.Sprintf("vm:%d", v.ID), "state": "ignored"})
	case "migrate":
		to := fmt.Sprintf("pve%d", 1+l.rng.IntN(l.hosts))
		online := 0
		if v.State == "running" {
			online = 1
		}
		err = l.asRoot("POST", fmt.Sprintf("/nodes/%s/qemu/%d/migrate", v.Host, v.ID), map[string]any{"target": to, "online": online})
	case "reidentify":
		takes = strings.Contains(v.Config["description"], "stage=ready")
		err = c.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"smbios1": "uuid=7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f"}, nil, "")
	}
	l.note("A PERSON DOES %s TO %d (%s): %v", what, v.ID, v.Config["name"], err)
	switch {
	case takes && (err == nil || l.changed(v)):
		l.meddled[l.made[v.ID]] = true
	case err != nil: // it may have been done, or may yet be
		l.perhaps[l.made[v.ID]] = true
	}
}

// changed reports whether a machine is not as it was.
func (l *life) changed(was pvesim.VMState) bool {
	for _, v := range l.sim.Inventory().VMs {
		if v.ID == was.ID {
			return looksOf(v) != looksOf(was)
		}
	}
	return true
}

// copy clones one of our machines, notes and all, into our range.
func (l *life) copy(c *pveapi.Client, v pvesim.VMState) {
	id := l.unused()
	if id == 0 || v.State != "stopped" {
		return
	}
	full := true
	_, err := c.VM(v.Host, v.ID).Clone(context.Background(), pveapi.CloneOptions{NewID: id, Name: v.Config["name"], Full: &full, Pool: "plimsoll"})
	l.sim.Advance(60e9)
	l.note("A PERSON COPIES %d (%s) TO %d: %v", v.ID, v.Config["name"], id, err)
	l.own(id)
}

// makeStranger makes a machine in our range.
func (l *life) makeStranger() {
	id := l.unused()
	if id == 0 {
		return
	}
	err := l.asRoot("POST", "/nodes/pve1/qemu", map[string]any{
		"vmid": id, "name": fmt.Sprintf("db-%d", id), "pool": "plimsoll", "memory": 512,
	})
	l.sim.Advance(10e9)
	l.note("A PERSON MAKES %d: %v", id, err)
	l.own(id)
}

// unused is a VMID of our range that nothing has and that we have not used.
func (l *life) unused() int {
	used := map[int]bool{}
	for _, v := range l.sim.Inventory().VMs {
		used[v.ID] = true
	}
	for _, m := range l.fleet.roster.machines {
		used[m.VMID] = true
	}
	for range 20 {
		if id := 1000 + l.rng.IntN(12); !used[id] && l.made[id] == "" {
			return id
		}
	}
	return 0
}

// own notes a machine that a person made, if it came to be.
func (l *life) own(id int) {
	for _, v := range l.sim.Inventory().VMs {
		if v.ID == id {
			l.foreign[id] = foreign{looksOf(v)}
		}
	}
}

// unprotect lets people change their minds about the machines that they protected, or put under
// high availability.
func (l *life) unprotect() {
	for _, v := range l.sim.Inventory().VMs {
		if l.mine(v) {
			_ = l.asRoot("DELETE", fmt.Sprintf("/cluster/ha/resources/vm:%d", v.ID), nil)
		}
		if l.mine(v) && v.Config["protection"] == "1" && strings.Contains(v.Config["description"], "stage=ready") {
			err := l.root().VM(v.Host, v.ID).SetConfig(context.Background(), map[string]string{"protection": "0"}, nil, "")
			l.note("A PERSON UNPROTECTS %d: %v", v.ID, err)
		}
	}
}
