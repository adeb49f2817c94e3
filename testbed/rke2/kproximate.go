package rke2

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// strays are the machines that kproximate takes for its own: all whose names are its prefix and a
// UUID. They are in no resource pool and carry no mark, so nothing proves who made them.
func (pm *premises) strays(ctx context.Context) ([]pveapi.Resource, error) {
	k := pm.cfg.Site.Addons.Kproximate
	if k == nil {
		return nil, nil
	}
	itsName := regexp.MustCompile(`^` + regexp.QuoteMeta(k.Prefix) + `-\w{8}-\w{4}-\w{4}-\w{4}-\w{12}$`)
	list, err := pm.client.Resources(ctx)
	return slices.DeleteFunc(list, func(r pveapi.Resource) bool { return r.Type != "qemu" || !itsName.MatchString(r.Name) }), err
}

// namesAreFree is done when no machine has a name that kproximate would take for one of its own,
// and delete. Once there is the control plane that it runs on, those that have are its own.
func (pm *premises) namesAreFree(ctx context.Context) (bool, error) {
	there, err := pm.within(ctx, pm.cfg.Site.VMIDs.First, pm.cfg.Site.VMIDs.First)
	if err != nil || len(there) > 0 {
		return err == nil, err
	}
	strays, err := pm.strays(ctx)
	if err != nil || len(strays) == 0 {
		return err == nil, err
	}
	return false, &Fault{
		Field: "addons.kproximate.prefix", Text: "machines are there that kproximate would take for its own, and delete: " + names(strays),
		Mend: []string{"addons.kproximate.prefix, and kpNodeNamePrefix in its manifests: a prefix that no machine's name begins with"},
	}
}

// noStrays is done when none of kproximate's machines is left. Those that are stay, and are
// printed.
func (pm *premises) noStrays(ctx context.Context) (bool, error) {
	strays, err := pm.strays(ctx)
	if err != nil || len(strays) == 0 {
		return err == nil, err
	}
	f := &Fault{
		Field: "addons.kproximate.prefix",
		Text:  "machines are left whose names are kproximate's, and are not touched, for nothing else says whose they are; all else of the test bed is gone: " + names(strays),
	}
	for _, r := range strays {
		f.Mend = append(f.Mend, fmt.Sprintf("if it was made in this test bed, on %s: qm stop %d && qm destroy %d --purge", r.Node, r.VMID, r.VMID))
	}
	f.Mend = append(f.Mend, "then run down again, for what is kept of the test bed here")
	return false, f
}
