package rke2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// theFleet is what makes and destroys the machines, with the intents that were kept.
func (b *Bench) theFleet() (*pve.Fleet, error) {
	if b.fleet != nil {
		return b.fleet, nil
	}
	site, err := b.plan()
	if err != nil {
		return nil, err
	}
	kept, err := intents.OpenLog(intentFile{b.cfg.Store})
	if err != nil {
		return nil, err
	}
	b.fleet, err = pve.NewFleet(pve.FleetConfig{
		Client: b.client, Owner: site.Owner, Pools: site.Pools, Intents: kept, Nodes: b.nodes,
		AnyCluster: true, // it makes the cluster itself, and removes what Plimsoll made for it
		Now:        b.cfg.Now, Rand: rand.New(rand.NewPCG(b.cfg.Rand.Uint64(), b.cfg.Rand.Uint64())), Parallel: 1,
		ClonesPerStorage: site.ClonesPerStorage, HA: site.HA,
		// No other client makes discs of this owner.
		OrphanGrace: nodescaler.Duration(time.Nanosecond),
		Report:      func(e pve.Event) { b.premises.say("      %s", eventLine(e)) },
	})
	return b.fleet, err
}

// dropOutlived drops what is intended with machines whose VMID another machine of the pool has by
// now: Plimsoll in the cluster gave the one back, and has made the other, of which this folder
// knows nothing. The fleet would take the other for the one, find no proof, and leave it. What
// drops is not lost: a machine is known by its marks.
func (pm *premises) dropOutlived(ctx context.Context) error {
	kept, err := intents.OpenLog(intentFile{pm.cfg.Store})
	if err != nil {
		return err
	}
	mine, err := kept.Load()
	if err != nil || len(mine) == 0 {
		return err
	}
	there, err := pm.client.Resources(ctx)
	if err != nil {
		return err
	}
	for _, i := range mine {
		other := func(r pveapi.Resource) bool {
			return r.VMID == i.VMID && r.Lock == "" && r.Name != i.Name && strings.HasPrefix(r.Name, i.Pool+"-")
		}
		if slices.ContainsFunc(there, other) {
			if err := kept.Remove(i.Order); err != nil {
				return err
			}
		}
	}
	return nil
}

func eventLine(e pve.Event) string {
	line := e.Text
	if e.Machine != "" {
		line = e.Machine + ": " + line
	}
	if e.Advice != "" {
		line += " (" + e.Advice + ")"
	}
	return e.Code + ": " + line
}

// nodes are those of the cluster. Before the control plane has joined, its silence means that it
// has no nodes: a control plane that never comes up must fail as any other machine. From then on,
// silence says nothing.
func (b *Bench) nodes(ctx context.Context) ([]pve.Node, error) {
	if b.leaving || b.secrets == nil {
		return nil, errors.New("the cluster is not asked")
	}
	if b.kube == nil {
		text, err := b.secrets.kubeconfig(b.cfg.Site)
		if err != nil {
			return nil, err
		}
		if b.kube, err = b.cfg.Kubernetes(text); err != nil {
			return nil, err
		}
	}
	list, err := b.kube.Nodes(ctx)
	if err != nil && !b.serving {
		return nil, ctx.Err()
	}
	return list, err
}

// outage is how long Proxmox VE may not answer before nothing more is waited for.
const outage = 5 * time.Minute

// look has the fleet see the world as it is.
func (b *Bench) look(ctx context.Context) (loop.MachineState, error) {
	f, err := b.theFleet()
	if err != nil {
		return loop.MachineState{}, err
	}
	var seen loop.MachineState
	err = b.premises.until(ctx, outage, 2*time.Second, func(ctx context.Context) error {
		if err := f.Tick(ctx); err != nil {
			return err
		}
		seen, err = f.List(ctx)
		return err
	})
	return seen, err
}

func (b *Bench) machines(ctx context.Context) ([]nodescaler.Machine, error) {
	seen, err := b.look(ctx)
	return seen.Machines, err
}

// patience is how long a machine may take until it is a node, or is gone, with all that it waits
// for. The fleet's own limits are shorter, and say more.
const patience = time.Hour

// drive lets the fleet work until something holds.
func (b *Bench) drive(ctx context.Context, holds func(loop.MachineState) (bool, error)) error {
	begun := b.cfg.Now()
	b.refused = nil
	for {
		seen, err := b.look(ctx)
		if err != nil {
			return err
		}
		done, err := holds(seen)
		if done || err != nil {
			return err
		}
		if b.cfg.Now().Sub(begun) > patience {
			return fmt.Errorf("not within %s: %w", patience, b.inTheWay(seen.Machines))
		}
		if err := b.cfg.Wait(ctx, min(max(b.fleet.Pause(), 200*time.Millisecond), 5*time.Second)); err != nil {
			return err
		}
	}
}

// inTheWay says how far machines are, and what keeps them.
func (b *Bench) inTheWay(machines []nodescaler.Machine) error {
	var all []error
	for _, m := range machines {
		all = append(all, fmt.Errorf("%s on %s is %s: %s", m.Name, m.Host, m.Phase, cmp.Or(m.Problem, "nothing more is known")))
	}
	if b.refused != nil {
		all = append(all, b.refused)
	}
	return errors.Join(all...)
}

// here are all machines in our resource pool, known to the fleet or not, and those of our VMIDs
// that are being cloned: before its end, a clone is in no pool and shows no mark.
func (pm *premises) here(ctx context.Context) ([]pveapi.Resource, error) {
	p, err := pm.client.Pool(ctx, pm.cfg.Site.PVEPool)
	if pveapi.Is(err, pveapi.NoPool) {
		return nil, nil // and no clone into it can end
	}
	if err != nil {
		return nil, err
	}
	all := slices.DeleteFunc(p.Members, func(r pveapi.Resource) bool { return r.VMID == 0 || pm.makes(r.VMID) })
	list, err := pm.client.Resources(ctx)
	for _, r := range list {
		known := slices.ContainsFunc(all, func(o pveapi.Resource) bool { return o.VMID == r.VMID })
		if !known && pm.cfg.Site.VMIDs.Holds(r.VMID) && (r.Lock == "clone" || r.Lock == "create") {
			all = append(all, r)
		}
	}
	return all, err
}
