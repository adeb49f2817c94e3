package settings

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
)

// Recipe is a digest of what makes the pool's machines what they are.
func (p *Pool) Recipe() string {
	data, err := json.Marshal(p)
	if err != nil { // a pool holds nothing that has no JSON
		panic(err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:12]
}

// Made is a digest of what of the pool's configuration makes its machines what they are, on a host.
// How many there may be, where, and how long things may take is none of it, nor is the token to join with,
// which a machine that has joined needs no more.
func (p *Pool) Made(host string) string {
	own := *p
	own.Template = placement.Template{VMID: p.Template.On(host)}
	own.Shapes, own.Min, own.Max, own.VMIDs, own.Placement, own.ISO = nil, 0, 0, placement.VMIDs{}, placement.Rules{}, ISO{}
	own.Cooldown, own.ShutdownGrace, own.JoinTimeout, own.MaxFailures, own.Resumed = 0, 0, 0, 0, time.Time{}
	data, err := json.Marshal(&own)
	if err != nil { // a pool holds nothing that has no JSON
		panic(err)
	}
	for _, file := range []firstboot.Secret{p.Join.CloudConfig, p.Join.UserDataTemplate, p.Join.Registries} {
		data = fmt.Appendf(data, "\n%d %s", len(file), string(file))
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:12]
}
