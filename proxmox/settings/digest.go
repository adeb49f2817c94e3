package settings

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
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

// madeBy is the version of what Made digests. A change of that needs another one, or an upgrade
// would have all machines differ from what their pools would make now.
const madeBy = "2"

// Made is a digest of what of the pool's configuration makes its machines what they are, on a host.
// How many there may be, where, how long things may take, what is counted on of a machine and how
// it is tagged has no part in it. Nor have the token to join with, which a machine that has joined
// needs no more, and the version that is installed, which the owner of a node may change there.
func (p *Pool) Made(host string) string {
	own := *p
	own.Template = placement.Template{VMID: p.Template.On(host)}
	own.Join.Install.Version = ""
	return own.digest()
}

// Revision is a digest of what of the pool's configuration makes machines drift once it changes, on
// any host.
func (p *Pool) Revision() string {
	own := p.Complete()
	_, text, _ := strings.Cut(own.digest(), ":")
	return text
}

// digest is that of what makes machines what they are.
func (p *Pool) digest() string {
	own := *p
	own.Shapes, own.Min, own.Max, own.VMIDs, own.Placement, own.ISO = nil, 0, 0, placement.VMIDs{}, placement.Rules{}, ISO{}
	own.Cooldown, own.ShutdownGrace, own.JoinTimeout, own.MaxFailures, own.Resumed = 0, 0, 0, 0, time.Time{}
	own.Reserved, own.PodSlots, own.Resources, own.Tags, own.Disruption = pricing.Resources{}, 0, nil, nil, nodescaler.Disruption{}
	data, err := json.Marshal(&own)
	if err != nil { // a pool holds nothing that has no JSON
		panic(err)
	}
	for _, file := range []firstboot.Secret{p.Join.CloudConfig, p.Join.UserDataTemplate, p.Join.Registries} {
		data = fmt.Appendf(data, "\n%d %s", len(file), string(file))
	}
	return digest(data)
}

// Cloned is a digest of what of that counts when a machine is cloned on a host.
func (p *Pool) Cloned(host string) string {
	return digest(fmt.Appendf(nil, "%d %q %q %q", p.Template.On(host), p.Clone, p.Storage, p.Format))
}

// Mixed is the digest of a machine that was cloned, given its disc and configured while the pool's
// settings changed: it is what no settings make.
func Mixed(parts ...string) string { return digest([]byte(strings.Join(parts, " "))) }

func digest(data []byte) string { return madeBy + ":" + fmt.Sprintf("%x", sha256.Sum256(data))[:12] }

// Differs reports whether two digests of Made are known to be of different settings: those of
// different versions are not.
func Differs(made, now string) bool {
	by, _, versioned := strings.Cut(made, ":")
	return versioned && by == madeBy && made != now
}
