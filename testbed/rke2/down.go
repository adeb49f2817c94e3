package rke2

import (
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
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// forget is the name of the last step down, after which the bench remembers nothing.
const forget = "forget"

// downSteps are the way down. The control plane goes first: Plimsoll runs there, and would make
// machines in place of those that go.
func (b *Bench) downSteps() []step {
	s := b.cfg.Site
	all := []step{
		{
			"control", "remove the control plane", 90 * time.Second,
			func(ctx context.Context) (bool, error) { return b.gone(ctx, s.VMIDs.First, s.VMIDs.First) },
			func(ctx context.Context) error { return b.remove(ctx, s.VMIDs.First, s.VMIDs.First) },
		},
		{
			"machines", "remove all other machines", 2 * time.Minute,
			func(ctx context.Context) (bool, error) { return b.gone(ctx, 0, s.VMIDs.Last) },
			func(ctx context.Context) error { return b.remove(ctx, 0, s.VMIDs.Last) },
		},
		{"discs", "remove first-boot discs", 5 * time.Second, b.noDiscs, b.removeDiscs},
	}
	if s.Image != nil {
		all = append(all, step{"template", "remove the template", 10 * time.Second, b.templates.noTemplate, b.templates.removeTemplate})
	}
	all = append(
		all,
		step{"token", "remove Plimsoll's token and roles", 5 * time.Second, b.premises.noToken, b.premises.removeToken},
		step{"pool", "remove the resource pool " + s.PVEPool, 2 * time.Second, b.premises.noPool, b.premises.removePool},
	)
	if s.Addons.Kproximate != nil {
		all = append(all, step{"kproximate", "look whether machines of kproximate are left", 2 * time.Second, b.premises.noStrays, nothingToDo})
	}
	return append(
		all, step{forget, "remove what is kept of it here", time.Second, b.premises.forgotten, b.premises.forget},
	)
}

// within are the machines of the resource pool with VMIDs in a range; first 0 means all VMIDs.
func (pm *premises) within(ctx context.Context, first, last int) ([]pveapi.Resource, error) {
	members, err := pm.here(ctx)
	return slices.DeleteFunc(members, func(r pveapi.Resource) bool { return first > 0 && (r.VMID < first || r.VMID > last) }), err
}

// gone is done when the server shows no machine of a range, and the fleet knows of none either: it
// may have asked for one that is not there yet.
func (b *Bench) gone(ctx context.Context, first, last int) (bool, error) {
	there, err := b.premises.within(ctx, first, last)
	if err != nil || len(there) > 0 {
		return false, err
	}
	known, err := b.machines(ctx)
	if err != nil {
		return false, err
	}
	return len(b.among(known, first)) == 0, nil
}

// among are the fleet's machines of the control plane's pool, or with first 0 all.
func (b *Bench) among(all []nodescaler.Machine, first int) []nodescaler.Machine {
	return slices.DeleteFunc(slices.Clone(all), func(m nodescaler.Machine) bool { return first > 0 && m.Pool != controlPool })
}

// unprovedFor is how long a machine may be there that is not proved to be ours: one that is being
// cloned is not, until it is there whole.
const unprovedFor = 15 * time.Minute

// remove gives all machines of a range back, and waits until they are gone. What is not proved to
// be ours is never touched, and is reported.
func (b *Bench) remove(ctx context.Context, first, last int) error {
	f, err := b.theFleet()
	if err != nil {
		return err
	}
	var unproved time.Time
	return b.drive(ctx, func(now loop.MachineState) (bool, error) {
		mine := b.among(now.Machines, first)
		for _, m := range mine {
			if err := f.Delete(ctx, m.Name); err != nil {
				return false, err
			}
		}
		there, err := b.premises.within(ctx, first, last)
		if err != nil || len(mine)+len(there) == 0 {
			return err == nil, err
		}
		if len(mine) > 0 {
			unproved = time.Time{}
			return false, nil
		}
		if unproved.IsZero() {
			unproved = b.cfg.Now()
		}
		if b.cfg.Now().Sub(unproved) > unprovedFor {
			return false, &Fault{
				Field: "pvePool", Text: "machines are in the resource pool that are not proved to be the test bed's, and are not touched: " + names(there),
				Mend: []string{"take them out of the pool " + b.cfg.Site.PVEPool + ", or destroy them by hand, and run down again"},
			}
		}
		return false, nil
	})
}

func names(all []pveapi.Resource) string {
	var list []string
	for _, r := range all {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%d on %s %s", r.VMID, r.Node, r.Name)))
	}
	return strings.Join(list, ", ")
}

// discs are the first-boot discs of our machines that are there.
func (b *Bench) discs(ctx context.Context) ([]pve.Orphan, error) {
	f, err := b.theFleet()
	if err != nil {
		return nil, err
	}
	var report pve.Report
	err = b.premises.until(ctx, outage, 2*time.Second, func(ctx context.Context) error {
		report, err = f.Orphans(ctx)
		return err
	})
	for _, what := range report.Unknown {
		if what != "nodes" {
			return nil, fmt.Errorf("not looked at: %s", what)
		}
	}
	return slices.DeleteFunc(report.Orphans, func(o pve.Orphan) bool { return o.Kind != pve.DiscWithoutMachine || o.Pool == "" }), err
}

func (b *Bench) noDiscs(ctx context.Context) (bool, error) {
	left, err := b.discs(ctx)
	return err == nil && len(left) == 0, err
}

func (b *Bench) removeDiscs(ctx context.Context) error {
	return b.premises.until(ctx, outage, time.Second, func(ctx context.Context) error {
		if _, err := b.fleet.Collect(ctx, nil); err != nil {
			return err
		}
		left, err := b.discs(ctx)
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("%s is there", left[0].Name)
		}
		return err
	})
}

// ownRoles are the roles of the test bed that are there.
func (pm *premises) ownRoles(ctx context.Context) ([]string, error) {
	roles, err := pm.client.Access().Roles(ctx)
	own := slices.DeleteFunc(slices.Sorted(maps.Keys(roles)), func(name string) bool {
		return !strings.HasPrefix(name, "Plimsoll") || !strings.HasSuffix(name, "-"+pm.cfg.Site.roleSuffix())
	})
	return own, err
}

func (pm *premises) noToken(ctx context.Context) (bool, error) {
	there, err := pm.client.Access().TokenExists(ctx, pm.productAccount())
	if err != nil || there {
		return false, err
	}
	roles, err := pm.ownRoles(ctx)
	return err == nil && len(roles) == 0, err
}

// removeToken removes the token, and with it what it was granted, and the roles.
func (pm *premises) removeToken(ctx context.Context) error {
	there, err := pm.client.Access().TokenExists(ctx, pm.productAccount())
	if err != nil {
		return err
	}
	if there {
		if err := pm.client.Access().RemoveToken(ctx, pm.productAccount()); err != nil {
			return err
		}
	}
	roles, err := pm.ownRoles(ctx)
	if err != nil {
		return err
	}
	for _, name := range roles {
		if err := pm.client.Access().RemoveRole(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// noPool is done when there is no such pool, or it is another owner's.
func (pm *premises) noPool(ctx context.Context) (bool, error) {
	p, err := pm.client.Pool(ctx, pm.cfg.Site.PVEPool)
	switch {
	case pveapi.Is(err, pveapi.NoPool):
		return true, nil
	case err != nil:
		return false, err
	case p.Comment != pm.comment():
		pm.say("      the resource pool %s is not the test bed's and stays: its comment is %q", p.Name, p.Comment)
		return true, nil
	}
	return false, nil
}

func (pm *premises) removePool(ctx context.Context) error {
	return pm.client.RemovePool(ctx, pm.cfg.Site.PVEPool)
}

var kept = []string{kubeconfigFile, intentsFile, secretsFile, stateFile}

func (pm *premises) forgotten(context.Context) (bool, error) {
	for _, name := range kept {
		if _, err := pm.cfg.Store.Read(name); !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return true, nil
}

// forget removes the bench's files, the one last that says that there is something to go on with.
func (pm *premises) forget(context.Context) error {
	for _, name := range kept {
		if err := pm.cfg.Store.Remove(name); err != nil {
			return err
		}
	}
	return nil
}
