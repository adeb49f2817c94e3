package rke2

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Preflight looks at all that the test bed rests on, and returns what is at fault: the field of the
// site's file, what is wrong, and what fixes it. It only reads.
func (b *Bench) Preflight(ctx context.Context) (Faults, error) {
	site, err := b.examined()
	if err != nil {
		return nil, err
	}
	connection := b.cfg.Connection
	connection.Warn = nil // the checks say it
	making, err := b.making()
	if err != nil {
		return nil, err
	}
	doctor := doctor.Doctor{Site: site, Connection: connection, Making: making}
	found, err := doctor.Examine(ctx)
	if err != nil {
		return nil, err
	}
	awaited := false // the template
	if b.cfg.Site.Image != nil && found.Reached {
		seen, err := b.templates.template(ctx)
		awaited = err == nil && !seen.done
	}
	faults := b.premises.faults(found, awaited)
	if !found.Reached {
		return faults, ErrUnreachable
	}
	more, err := b.examineMaking(ctx)
	if pveapi.Is(err, pveapi.Unauthorized, pveapi.Forbidden) && len(faults) > 0 {
		return faults, nil // said already
	}
	faults = append(faults, more...)
	if err == nil && awaited {
		more, err = b.templates.examineImage(ctx)
		faults = append(faults, more...)
	}
	return faults, err
}

// making are the VMIDs of machines that were ordered and are not gone.
func (b *Bench) making() ([]int, error) {
	kept, err := intents.OpenLog(intentFile{b.cfg.Store})
	if err != nil {
		return nil, err
	}
	all, err := kept.Load()
	var ids []int
	for i := range all {
		if all[i].Gone.IsZero() {
			ids = append(ids, all[i].VMID)
		}
	}
	return ids, err
}

// fields are the site's keys that checks are about.
var fields = []struct{ id, field string }{
	{"connection.token", "tokenFile"}, {"connection.certificate", "fingerprints"}, {"connection.insecure", "insecure"}, {"connection.", "endpoints"},
	{"cluster.named", "hosts"}, {"cluster.", "endpoints"}, {"rights.", "tokenFile"}, {"templates.", "template"}, {"network.", "bridge"},
	{"pools.strangers", "vmids"}, {"pools.vmids", "vmids"}, {"pools.hosts", "hosts"}, {"pools.", "pvePool"}, {"machines.", "vmids"},
}

// examined is the site as one pool of all its machines: what they rest on is the same, and is
// reported once.
func (b *Bench) examined() (*settings.Site, error) {
	site, err := b.plan()
	if err != nil {
		return nil, err
	}
	one := *site
	all := site.Pools[workers]
	all.Shapes = nil
	for i := range site.Pools {
		all.Shapes = append(all.Shapes, site.Pools[i].Shapes...)
	}
	all.VMIDs, all.Max, all.Cooldown = b.cfg.Site.VMIDs, b.cfg.Site.Workers.Max+workers, 0
	all.Network = b.cfg.Site.Network
	all.Join.Servers = []string{controlPool} // by name: its address is among these
	one.Pools = []settings.Pool{all}
	return &one, nil
}

// faults are what the checks come to for a test bed. Where the template is still to be made, what
// rests on it is looked at when it is there.
func (pm *premises) faults(found *doctor.Diagnosis, awaited bool) Faults {
	// Where some hosts are left, what others lack is no fault. Where none is, it is why.
	nowhere := slices.ContainsFunc(found.Checks, func(c doctor.Check) bool { return c.ID == "pools.hosts" && c.Status == doctor.Fail })
	var faults Faults
	for i := range found.Checks {
		c := &found.Checks[i]
		bad := c.Status == doctor.Fail && !(awaited && (c.Group() == doctor.GroupTemplates || c.ID == "pools.hosts" || c.ID == "rights.template"))
		switch c.ID {
		case "pools.there": // it is made
			bad = false
		case "pools.strangers": // there is one VMID for the control plane, and no other will do
			bad = bad || c.Status == doctor.Warn
		case "pools.hosts": // reported when nothing else says why
			bad = bad && len(faults) == 0
		case "storage.there", "storage.content", "storage.room", "network.bridge", "templates.reach":
			bad = bad || nowhere && c.Status == doctor.Warn
		}
		if bad {
			faults = append(faults, pm.fault(c))
		}
	}
	return faults
}

func (pm *premises) fault(c *doctor.Check) Fault {
	f := Fault{Field: pm.fieldOf(c), Text: inSiteWords(c.Text)}
	for _, m := range c.Mend {
		f.Mend = append(f.Mend, inSiteWords(m))
	}
	return f
}

func (pm *premises) fieldOf(c *doctor.Check) string {
	if strings.HasPrefix(c.ID, "storage.") {
		if strings.HasPrefix(c.Subject, pm.cfg.Site.ISO.Storage+" ") || c.Subject == pm.cfg.Site.ISO.Storage {
			return "iso.storage"
		}
		if pm.cfg.Site.Storage == "" {
			return "template" // linked clones lie where it does
		}
		return "storage"
	}
	for _, f := range fields {
		if strings.HasPrefix(c.ID, f.id) {
			return f.field
		}
	}
	return c.ID
}

// keyOfPool is a key of the examined pool, in a text.
var keyOfPool = regexp.MustCompile(`pools\[0\](\.[A-Za-z0-9.\[\]]*[A-Za-z0-9\]])?`)

// inSiteWords is a text with the site's keys in place of the examined pool's.
func inSiteWords(text string) string {
	text = keyOfPool.ReplaceAllStringFunc(text, func(key string) string {
		_, rest, found := strings.Cut(key, ".")
		if !found {
			return "the site"
		}
		return fieldOf(fmt.Sprintf("pools[%d].%s", workers, rest))
	})
	return strings.ReplaceAll(text, "placement.hosts", "hosts")
}

// examineMaking looks whether what machines need around them can be made, and is no other client's.
func (b *Bench) examineMaking(ctx context.Context) (Faults, error) {
	var faults Faults
	held, err := b.client.Access().Permissions(ctx)
	if err != nil {
		return nil, err
	}
	have := pveapi.Permissions(held)
	for _, n := range []struct{ path, privilege, why string }{
		{"/pool/" + b.cfg.Site.PVEPool, "Pool.Allocate", "make the resource pool, and remove it"},
		{"/access", "Sys.Modify", "make the roles of Plimsoll's token, and remove them"},
		{"/", "Permissions.Modify", "give Plimsoll's token its rights"},
	} {
		if !have.Has(n.path, n.privilege) {
			faults = append(faults, Fault{
				Field: "tokenFile", Text: fmt.Sprintf("token %s lacks %s on %s, which it takes to %s", b.account, n.privilege, n.path, n.why),
				Mend: []string{"a token of an administrator of the cluster: pveum acl modify / --tokens " + pveapi.Shell(b.account.String()) + " --roles Administrator"},
			})
		}
	}
	for _, look := range []func(context.Context) (bool, error){b.premises.havePool, b.premises.namesAreFree} {
		if _, err := look(ctx); err != nil {
			var f *Fault
			if !errors.As(err, &f) {
				return faults, err
			}
			faults = append(faults, *f)
		}
	}
	return faults, nil
}
