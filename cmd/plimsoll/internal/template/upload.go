package template

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// Upload is a template that is to be, on one host.
type Upload struct {
	Host, Storage, Import string // where disks are; where the image is put first
	Bridge, VLAN          string
	CPU                   string
	VMID                  int
	Name                  string
}

// Uploader makes templates of an image.
type Uploader struct {
	Client *pveapi.Client
	Slow   *pveapi.Client // waits long enough for an image to arrive
	Say    func(string)
}

// volume is the image's name on a storage. It names the content, so that one that is there already
// is not sent again.
func (i *Image) volume() string { return fmt.Sprintf("%s-%.12s.qcow2", i.Name, i.SHA256) }

// Make uploads the image and makes a template of it. What an earlier attempt has done is not done
// again.
func (u *Uploader) Make(ctx context.Context, image *Image, to Upload) error {
	free, err := u.Client.VMIDFree(ctx, to.VMID)
	if err != nil {
		return err
	}
	if free {
		err = u.bring(ctx, image, &to)
		if err == nil {
			err = u.create(ctx, image, &to)
		}
		if err != nil {
			return err
		}
	} else if made, err := u.made(ctx, image, &to); made || err != nil {
		return err
	}
	task, err := u.Client.VM(to.Host, to.VMID).MakeTemplate(ctx)
	return u.wait(ctx, task, err, fmt.Sprintf("making %d on %s a template", to.VMID, to.Host))
}

// made reports whether the VMID is a template of this image already. One that is of another is an
// error, and one that is not a template yet was left by an attempt that was interrupted.
func (u *Uploader) made(ctx context.Context, image *Image, to *Upload) (bool, error) {
	config, err := u.Client.VM(to.Host, to.VMID).Config(ctx)
	if err != nil || !strings.Contains(config.Description, image.mark()) {
		return false, fmt.Errorf("--vmid: must be free, and %d has a machine that is not of this image", to.VMID)
	}
	if config.Template {
		u.Say(fmt.Sprintf("%d on %s is a template of this image already", to.VMID, to.Host))
	}
	return config.Template, nil
}

// mark is in the notes of what is made of the image.
func (i *Image) mark() string { return "plimsoll template " + i.SHA256[:12] }

// bring puts the image on the storage for images.
func (u *Uploader) bring(ctx context.Context, image *Image, to *Upload) error {
	there, err := u.Client.Volumes(ctx, to.Host, to.Import, "import", 0)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(there, func(v pveapi.Volume) bool { return v.Name == "import/"+image.volume() }) {
		return nil
	}
	f, err := os.Open(filepath.Clean(image.File))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	task, err := u.Slow.UploadImage(ctx, to.Host, to.Import, image.volume(), image.SHA256, f, image.Size)
	return u.wait(ctx, task, err, fmt.Sprintf("uploading %s, %d MiB, to %s on %s", image.File, image.Size>>20, to.Import, to.Host))
}

// create makes the machine that becomes the template.
func (u *Uploader) create(ctx context.Context, image *Image, to *Upload) error {
	card := "virtio,bridge=" + to.Bridge
	if to.VLAN != "" {
		card += ",tag=" + to.VLAN
	}
	task, err := u.Client.VM(to.Host, to.VMID).Make(ctx, map[string]string{
		"name": to.Name, "description": image.mark() + "\n" + image.Recipe.Kind + " on Debian " + image.Recipe.Suite,
		"memory": "2048", "cores": "2", "cpu": to.CPU, "ostype": "l26", "net0": card,
		"scsihw": "virtio-scsi-single", "boot": "order=scsi0", "agent": "1", "serial0": "socket", "vga": "serial0",
		"scsi0": to.Storage + ":0,discard=on,import-from=" + to.Import + ":import/" + image.volume(),
		"ide2":  to.Storage + ":cloudinit",
	})
	return u.wait(ctx, task, err, fmt.Sprintf("making %d on %s, with its disk on %s", to.VMID, to.Host, to.Storage))
}

// wait waits for a task that was ordered.
func (u *Uploader) wait(ctx context.Context, task pveapi.UPID, err error, what string) error {
	u.Say(what)
	if err != nil {
		return err
	}
	status, err := u.Client.WaitTask(ctx, task)
	if err = errors.Join(err, status.Err()); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Listed waits until the cluster's list shows the templates, which takes some seconds: what reads
// the list next, such as init, finds them then.
func (u *Uploader) Listed(ctx context.Context, made []Upload) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		all, err := u.Client.Resources(ctx)
		missing := slices.ContainsFunc(made, func(m Upload) bool {
			return !slices.ContainsFunc(all, func(r pveapi.Resource) bool { return r.VMID == m.VMID && r.Template != nil && *r.Template })
		})
		if err != nil || !missing {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the templates were made, but the cluster's list does not show them: %w", ctx.Err())
		case <-time.After(time.Second):
		}
	}
}
