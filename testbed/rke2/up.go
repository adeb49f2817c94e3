package rke2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// upSteps are the way up.
func (b *Bench) upSteps() []step {
	s := b.cfg.Site
	machines := func(name, title, pool string, count int, takes time.Duration) step {
		return step{
			name, title, takes,
			func(ctx context.Context) (bool, error) { return b.have(ctx, pool, count) },
			func(ctx context.Context) error { return b.order(ctx, pool, count) },
		}
	}
	all := []step{
		{"preflight", "look whether it can be built", 10 * time.Second, b.sound, nothingToDo},
		{"secrets", "make tokens and authorities", time.Second, b.haveSecrets, b.makeSecrets},
		{"pool", "make the resource pool " + s.PVEPool, 2 * time.Second, b.premises.havePool, b.premises.makePool},
	}
	if s.Image != nil {
		all = append(
			all, step{"template", "make the template of " + s.Image.Volume, 2 * time.Minute, b.templates.haveTemplate, b.templates.makeTemplate},
			step{"soundness", "look whether machines can be made of it", 10 * time.Second, b.sound, nothingToDo},
		)
	}
	return append(
		all,
		step{"token", "make Plimsoll's token", 5 * time.Second, b.haveToken, b.makeToken},
		machines("control", "make the control plane", controlPool, 1, 6*time.Minute),
		machines("load", "make the load machine", loadPool, 1, 4*time.Minute),
		machines("workers", fmt.Sprintf("make %d workers", s.Workers.Start), s.workersName(), s.Workers.Start, 5*time.Minute),
	)
}

// nothingToDo is for steps that are done by looking.
func nothingToDo(context.Context) error { return nil }

// sound is done when nothing is at fault: nothing but people can fix what is.
func (b *Bench) sound(ctx context.Context) (bool, error) {
	faults, err := b.Preflight(ctx)
	if len(faults) > 0 {
		err = errors.Join(faults, err)
	}
	return err == nil, err
}

func (b *Bench) haveSecrets(context.Context) (bool, error) {
	if b.secrets == nil || b.secrets.Provider.CA == "" {
		return false, nil
	}
	want, err := b.secrets.kubeconfig(b.cfg.Site)
	if err != nil {
		return false, err
	}
	there, err := b.cfg.Store.Read(kubeconfigFile)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !bytes.Equal(there, want) {
		return false, err
	}
	var kept state
	return ReadJSON(b.cfg.Store, stateFile, &kept)
}

// makeSecrets makes what machines are given, before there is one, and writes it down: a cluster
// whose secrets are lost can only be taken down.
func (b *Bench) makeSecrets(context.Context) error {
	if err := b.state.keep(b.cfg.Store); err != nil {
		return err
	}
	if err := b.missingSecrets(); err != nil {
		return err
	}
	text, err := b.secrets.kubeconfig(b.cfg.Site)
	if err != nil {
		return err
	}
	return b.cfg.Store.Write(kubeconfigFile, text)
}

// missingSecrets makes those that there are not: a test bed that was begun earlier may have fewer.
func (b *Bench) missingSecrets() (err error) {
	s := &secrets{}
	switch {
	case b.secrets == nil:
		s, err = newSecrets(b.cfg.Now())
	case b.secrets.Provider.CA == "":
		*s = *b.secrets
		s.Provider, err = newMutual(b.cfg.Now())
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return b.keepSecrets(s)
}

func (b *Bench) keepSecrets(s *secrets) error {
	data, err := s.marshal()
	if err != nil {
		return err
	}
	if err := b.cfg.Store.Write(secretsFile, data); err != nil {
		return err
	}
	b.secrets, b.site, b.fleet, b.kube = s, nil, nil, nil
	return nil
}

func (pm *premises) havePool(ctx context.Context) (bool, error) {
	p, err := pm.client.Pool(ctx, pm.cfg.Site.PVEPool)
	switch {
	case pveapi.Is(err, pveapi.NoPool):
		return false, nil
	case err != nil:
		return false, err
	case p.Comment != pm.comment():
		return false, pm.strangePool(p.Comment)
	}
	return true, nil
}

func (pm *premises) strangePool(comment string) *Fault {
	return &Fault{
		Field: "pvePool", Text: fmt.Sprintf("the resource pool %s exists already and is not the test bed's: its comment is %q", pm.cfg.Site.PVEPool, comment),
		Mend: []string{"pvePool: the name of a resource pool that is not there, for it is made and removed with the test bed"},
	}
}

func (pm *premises) makePool(ctx context.Context) error {
	return pm.client.MakePool(ctx, pm.cfg.Site.PVEPool, pm.comment())
}

// rights are those that Plimsoll needs to make workers, as roles of the test bed's own.
func (b *Bench) rights(ctx context.Context) (roles map[string][]string, where []doctor.Need, err error) {
	site, err := b.plan()
	if err != nil {
		return nil, nil, err
	}
	v, err := b.client.Version(ctx)
	if err != nil {
		return nil, nil, err
	}
	release, err := doctor.ParseRelease(v.Version)
	if err != nil {
		return nil, nil, err
	}
	own := *site
	own.Pools = site.Pools[workers:]
	parts, err := b.templateParts(ctx)
	if err != nil {
		return nil, nil, err
	}
	zones, err := b.client.Zones(ctx)
	if err != nil && !pveapi.Is(err, pveapi.Unsupported) {
		return nil, nil, err
	}
	roles, where = doctor.Tailored(doctor.Needs(&own, release, parts, zones), b.cfg.Site.roleSuffix())
	return roles, where, nil
}

// roleSuffix ends the names of the test bed's roles.
func (s *Site) roleSuffix() string { return strings.ReplaceAll(s.Owner, "+", "_") }

// templateParts are what the templates are made of: who clones them needs rights there.
func (b *Bench) templateParts(ctx context.Context) (map[int]pveapi.Parts, error) {
	list, err := b.client.Resources(ctx)
	if err != nil {
		return nil, err
	}
	parts := map[int]pveapi.Parts{}
	for _, r := range list {
		if r.Type != "qemu" || !slices.Contains(b.cfg.Site.Template.IDs(), r.VMID) {
			continue
		}
		c, err := b.client.VM(r.Node, r.VMID).Config(ctx)
		if err != nil {
			return nil, err
		}
		parts[r.VMID] = c.Parts()
	}
	return parts, nil
}

// haveToken is done when there is the token, its value is known, and it may what it needs.
func (b *Bench) haveToken(ctx context.Context) (bool, error) {
	if b.secrets == nil || b.secrets.Proxmox == "" {
		return false, nil
	}
	there, err := b.client.Access().TokenExists(ctx, b.premises.productAccount())
	if err != nil || !there {
		return false, err
	}
	roles, where, err := b.rights(ctx)
	if err != nil {
		return false, err
	}
	have, err := b.client.Access().Roles(ctx)
	if err != nil {
		return false, err
	}
	for name, privileges := range roles {
		if !slices.Equal(have[name], privileges) {
			return false, nil
		}
	}
	granted, err := b.client.Access().Grants(ctx)
	for _, n := range where {
		if !slices.Contains(granted, pveapi.Grant{Path: n.Path, Role: n.Role, Who: b.premises.productAccount().String()}) {
			return false, err
		}
	}
	return true, err
}

// makeToken makes the token and gives it its rights. One whose value is not known is of no use: it
// is made anew.
func (b *Bench) makeToken(ctx context.Context) error {
	who := b.premises.productAccount()
	there, err := b.client.Access().TokenExists(ctx, who)
	if err != nil {
		return err
	}
	if there && b.secrets.Proxmox == "" {
		if err := b.client.Access().RemoveToken(ctx, who); err != nil {
			return err
		}
		there = false
	}
	if !there {
		token, err := b.client.Access().MakeToken(ctx, who, b.premises.comment())
		if err != nil {
			return err
		}
		changed := *b.secrets
		changed.Proxmox = token
		if err := b.keepSecrets(&changed); err != nil {
			return err
		}
	}
	return b.grant(ctx, who)
}

func (b *Bench) grant(ctx context.Context, who pveapi.Account) error {
	roles, where, err := b.rights(ctx)
	if err != nil {
		return err
	}
	have, err := b.client.Access().Roles(ctx)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		if held, there := have[name]; there {
			if slices.Equal(held, roles[name]) {
				continue
			}
			if err := b.client.Access().RemoveRole(ctx, name); err != nil {
				return err
			}
		}
		if err := b.client.Access().MakeRole(ctx, name, roles[name]); err != nil {
			return err
		}
	}
	for _, n := range where {
		if err := b.client.Access().Grant(ctx, n.Path, n.Role, who, n.Below); err != nil {
			return err
		}
	}
	return nil
}

// machinesOf are a pool's machines that are or will be nodes, and those that have failed.
func machinesOf(all []nodescaler.Machine, pool string) (live, failed []nodescaler.Machine) {
	for _, m := range all {
		switch {
		case m.Pool != pool:
		case m.Phase == nodescaler.Failed:
			failed = append(failed, m)
		case m.Phase.Live():
			live = append(live, m)
		}
	}
	return live, failed
}

// have is done when there are as many nodes of a pool as there should be.
func (b *Bench) have(ctx context.Context, pool string, count int) (bool, error) {
	list, err := b.machines(ctx)
	if err != nil {
		return false, err
	}
	live, failed := machinesOf(list, pool)
	joined := 0
	for _, m := range live {
		if m.Phase == nodescaler.Joined {
			joined++
		}
	}
	done := joined >= count && len(failed) == 0
	b.serving = b.serving || done && pool == controlPool
	return done, nil
}

// order makes what is missing of a pool's machines, and waits until they are nodes. What failed
// before is returned first; what fails now is reported, for what made it fail would make
// the next one fail too.
func (b *Bench) order(ctx context.Context, pool string, count int) error {
	f, err := b.theFleet()
	if err != nil {
		return err
	}
	list, err := b.machines(ctx)
	if err != nil {
		return err
	}
	_, failed := machinesOf(list, pool)
	for _, m := range failed {
		b.premises.say("      %s failed before (%s), and is removed", m.Name, m.Problem)
		if err := f.Delete(ctx, m.Name); err != nil {
			return err
		}
	}
	if _, paused := f.Paused()[pool]; paused {
		if err := f.Resume(pool); err != nil {
			return err
		}
	}
	return b.drive(ctx, func(now loop.MachineState) (bool, error) {
		live, failed := machinesOf(now.Machines, pool)
		if at := slices.IndexFunc(failed, func(m nodescaler.Machine) bool { return !slices.ContainsFunc(list, named(m.Name)) }); at >= 0 {
			return false, fmt.Errorf("%s has failed: %s; its console on %s shows more; what is there stays for a look, and the next up replaces it", failed[at].Name, failed[at].Problem, failed[at].Host)
		}
		if len(live) < count {
			return false, b.orderOne(ctx, f, pool)
		}
		joined := slices.DeleteFunc(live, func(m nodescaler.Machine) bool { return m.Phase != nodescaler.Joined })
		return len(joined) >= count && len(failed) == 0, nil
	})
}

func named(name string) func(nodescaler.Machine) bool {
	return func(m nodescaler.Machine) bool { return m.Name == name }
}

// passing are the refusals that end by themselves.
var passing = []string{
	pvecode.NoInventory, pvecode.Frozen, placement.CodeTemplateUnread, pvecode.PoolAtMax, pvecode.PoolBackingOff, pvecode.VMIDsExhausted,
}

// orderOne orders a machine. Its number is written down before: a name is never used again. An
// order that is refused for something that passes is given again later.
func (b *Bench) orderOne(ctx context.Context, f *pve.Fleet, pool string) error {
	site, err := b.plan()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(site.Pools, func(p settings.Pool) bool { return p.Name == pool })
	id := fmt.Sprintf("%s-%d", b.state.Run, b.state.Orders)
	b.state.Orders++
	if err := b.state.keep(b.cfg.Store); err != nil {
		return err
	}
	err = f.Create(ctx, loop.Order{ID: id, At: b.cfg.Now(), Action: nodescaler.Action{
		Kind: nodescaler.Buy, Order: id, Pool: pool, Shape: &site.Pools[at].Shapes[0],
	}})
	if refusal, ok := errors.AsType[*pve.Refusal](err); ok && slices.ContainsFunc(refusal.Reasons, func(r nodescaler.Reason) bool { return slices.Contains(passing, r.Code) }) {
		b.state.Orders-- // it was surely not taken
		b.refused = refusal
		return nil
	}
	return err
}
