package rke2

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// makes reports whether a VMID is that of the template that is made for the test bed.
func (pm *premises) makes(vmid int) bool {
	return pm.cfg.Site.Image != nil && vmid == pm.cfg.Site.Template.VMID
}

// templateSeen is how far the template is.
type templateSeen struct {
	there   bool
	host    string
	making  bool // another client works on it
	strange bool // and it is another owner's
	done    bool
}

// template looks at the template that is made.
func (tm *templates) template(ctx context.Context) (templateSeen, error) {
	list, err := tm.client.Resources(ctx)
	if err != nil {
		return templateSeen{}, err
	}
	at := slices.IndexFunc(list, func(r pveapi.Resource) bool { return r.VMID == tm.cfg.Site.Template.VMID })
	if at < 0 {
		free, err := tm.client.VMIDFree(ctx, tm.cfg.Site.Template.VMID)
		return templateSeen{there: !free, strange: !free}, err
	}
	seen := templateSeen{there: true, host: list[at].Node, making: list[at].Lock != ""}
	if seen.making {
		return seen, nil // it shows nothing of its settings before its end
	}
	c, err := tm.client.VM(seen.host, list[at].VMID).Config(ctx)
	if pveapi.Is(err, pveapi.Absent) {
		return templateSeen{}, nil
	}
	if err != nil {
		return seen, err
	}
	seen.making = c.Lock != ""
	seen.strange = !seen.making && strings.TrimSpace(c.Description) != tm.premises.comment()
	seen.done = c.Template && !seen.strange && !seen.making
	return seen, nil
}

func (tm *templates) strangeTemplate() *Fault {
	return &Fault{
		Field: "template.vmid", Text: fmt.Sprintf("the VMID %d is taken by a foreign VM", tm.cfg.Site.Template.VMID),
		Mend: []string{"template: {vmid: a VMID that is free}, for the template is made and removed with the test bed", "or no image, if it is the template to take"},
	}
}

func (tm *templates) haveTemplate(ctx context.Context) (bool, error) {
	seen, err := tm.template(ctx)
	if err == nil && seen.strange {
		err = tm.strangeTemplate()
	}
	return seen.done, err
}

// working is how long an image may take to be copied by another client than this process.
const working = 30 * time.Minute

// makeTemplate makes a machine of the image, and a template of the machine. What is on its way
// already is waited for.
func (tm *templates) makeTemplate(ctx context.Context) error {
	begun := tm.cfg.Now()
	for {
		seen, err := tm.template(ctx)
		switch {
		case err != nil || seen.done:
			return err
		case seen.strange:
			return tm.strangeTemplate()
		case seen.making && tm.cfg.Now().Sub(begun) > working:
			return fmt.Errorf("VM %d on %s is locked and no template, not within %s", tm.cfg.Site.Template.VMID, seen.host, working)
		case seen.making:
			err = tm.cfg.Wait(ctx, 2*time.Second)
		case seen.there:
			err = tm.finish(ctx)(tm.client.VM(seen.host, tm.cfg.Site.Template.VMID).MakeTemplate(ctx))
		default:
			err = tm.finish(ctx)(tm.client.VM(tm.cfg.Site.Image.Host, tm.cfg.Site.Template.VMID).Make(ctx, tm.templateConfig()))
		}
		if err != nil {
			return err
		}
	}
}

// finish waits for a task that was asked for.
func (tm *templates) finish(ctx context.Context) func(pveapi.UPID, error) error {
	return func(upid pveapi.UPID, err error) error {
		if err == nil {
			_, err = tm.client.WaitTask(ctx, upid)
		}
		return err
	}
}

// templateConfig is the machine that becomes the template. Cloud images write to a serial console,
// and some do not boot without one.
func (tm *templates) templateConfig() map[string]string {
	s := tm.cfg.Site
	bridge := s.Bridge
	if bridge == "" {
		bridge = "vmbr0"
	}
	return map[string]string{
		"name": s.templateName(), "description": tm.premises.comment(), "pool": s.PVEPool, "ostype": "l26", "cores": "1", "memory": "1024",
		"scsihw": "virtio-scsi-single", "scsi0": s.Image.Storage + ":0,import-from=" + s.Image.Volume, "boot": "order=scsi0",
		"net0": "virtio,bridge=" + bridge, "serial0": "socket", "vga": "serial0", "agent": "1",
	}
}

// templateName is the owner's as far as it fits into a host name.
func (s *Site) templateName() string {
	return "template-" + strings.Trim(strings.NewReplacer("_", "-", "+", "-", ".", "-").Replace(s.Owner), "-")
}

// noTemplate is done when the template is gone, or what is there is another owner's.
func (tm *templates) noTemplate(ctx context.Context) (bool, error) {
	seen, err := tm.template(ctx)
	if err == nil && seen.strange {
		tm.premises.say("      VM %d is not the test bed's and stays", tm.cfg.Site.Template.VMID)
	}
	return err == nil && (!seen.there || seen.strange), err
}

// removeTemplate removes the template, or what there is of it.
func (tm *templates) removeTemplate(ctx context.Context) error {
	begun := tm.cfg.Now()
	for {
		seen, err := tm.template(ctx)
		switch {
		case err != nil || !seen.there || seen.strange:
			return err
		case !seen.making:
			return tm.finish(ctx)(tm.client.VM(seen.host, tm.cfg.Site.Template.VMID).Destroy(ctx, true))
		case tm.cfg.Now().Sub(begun) > working:
			return fmt.Errorf("VM %d on %s is locked, not free within %s", tm.cfg.Site.Template.VMID, seen.host, working)
		}
		if err := tm.cfg.Wait(ctx, 2*time.Second); err != nil {
			return err
		}
	}
}

// examineImage looks at what the template is to be made of, and where.
func (tm *templates) examineImage(ctx context.Context) (Faults, error) {
	i := tm.cfg.Site.Image
	seen, err := tm.template(ctx)
	if err != nil {
		return nil, err
	}
	if seen.strange {
		return Faults{*tm.strangeTemplate()}, nil
	}
	hosts, err := tm.client.ClusterStatus(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(hosts.Nodes, func(n pveapi.ClusterNode) bool { return n.Name == i.Host && n.Online }) {
		return Faults{{Field: "image.host", Text: i.Host + " is no host of the cluster that is online", Mend: []string{"image: {host: a host that is}"}}}, nil
	}
	var faults Faults
	storage, _, _ := strings.Cut(i.Volume, ":")
	for _, need := range []struct{ field, storage, content string }{
		{"image.volume", storage, "import"}, {"image.storage", i.Storage, "images"}, {"iso.storage", tm.cfg.Site.ISO.Storage, "iso"},
	} {
		f, err := tm.examineStorage(ctx, i.Host, need.storage, need.content)
		if err != nil {
			return nil, err
		}
		if f != nil {
			f.Field = need.field
			faults = append(faults, *f)
		}
	}
	if len(faults) > 0 {
		return faults, nil
	}
	volumes, err := tm.client.Volumes(ctx, i.Host, storage, "import", 0)
	if !slices.ContainsFunc(volumes, func(v pveapi.Volume) bool { return v.ID == i.Volume }) && err == nil {
		_, name, _ := strings.Cut(i.Volume, "/")
		faults = append(faults, Fault{Field: "image.volume", Text: i.Volume + " is not there on " + i.Host, Mend: []string{
			"pvesh create /nodes/" + i.Host + "/storage/" + storage + "/download-url --content import --filename " + pveapi.Shell(name) + " --url ADDRESS",
		}})
	}
	return faults, err
}

// examineStorage looks whether a storage of a host takes a content.
func (tm *templates) examineStorage(ctx context.Context, host, name, content string) (*Fault, error) {
	all, err := tm.client.Storages(ctx, host)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(s pveapi.StorageStatus) bool { return s.Name == name })
	if at < 0 {
		return &Fault{Text: "there is no storage " + name + " on " + host, Mend: []string{"pvesm status (on " + host + ") lists them"}}, nil
	}
	if s := all[at]; !slices.Contains(s.Content, content) || !s.Active {
		return &Fault{
			Text: fmt.Sprintf("storage %s on %s is not active or does not take content %s; it takes %s", name, host, content, strings.Join(s.Content, ", ")),
			Mend: []string{"pvesm set " + pveapi.Shell(name) + " --content " + strings.Join(append(s.Content, content), ",")},
		}, nil
	}
	return nil, nil
}
