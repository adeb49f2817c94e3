package rke2

import (
	"errors"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What is wrong is reported before anything is made, by its field, with what fixes it.
func TestPreflightTellsFieldAndMendBeforeAnythingIsMade(t *testing.T) {
	for name, c := range map[string]struct {
		cluster func(*pvesim.Config)
		infect  func(*world)
		field   string
		says    string
	}{
		"wrong token": {infect: func(w *world) { w.token = "root@pam!builder=00000000-0000-0000-0000-000000000000" }, field: "tokenFile", says: "Authentication failed"},
		"token without rights": {
			infect: func(w *world) { w.token = w.sim.Token("weak@pve", "builder", false) }, field: "tokenFile", says: "lacks",
		},
		"missing storage of discs":  {infect: func(w *world) { w.site.ISO.Storage = "gone" }, field: "iso.storage", says: "gone"},
		"storage without discs":     {infect: func(w *world) { w.site.ISO.Storage = "local" }, field: "iso.storage", says: "iso"},
		"missing storage of clones": {infect: func(w *world) { w.site.Clone, w.site.Storage = "full", "gone" }, field: "storage", says: "gone"},
		"occupied VMIDs": {
			cluster: func(c *pvesim.Config) {
				c.VMs = append(c.VMs, pvesim.VM{ID: 5003, Host: "pve1", Config: map[string]string{"name": "theirs"}})
			}, field: "vmids", says: "5003",
		},
		"VMID of the control plane": {
			cluster: func(c *pvesim.Config) {
				c.VMs = append(c.VMs, pvesim.VM{ID: 5000, Host: "pve2", Config: map[string]string{"name": "theirs"}})
			}, field: "vmids", says: "5000",
		},
		"unreachable bridge": {infect: func(w *world) { w.site.Hosts, w.site.Bridge = []string{"pve1"}, "vmbr7" }, field: "bridge", says: "vmbr7"},
		"missing template":   {infect: func(w *world) { w.site.Template.VMID = 9999 }, field: "template", says: "9999"},
		"missing host":       {infect: func(w *world) { w.site.Hosts = []string{"pve9"} }, field: "hosts", says: "pve9"},
		"missing image": {infect: func(w *world) {
			ofImage(w)
			w.site.Image.Volume = "nfs:import/gone.qcow2"
		}, field: "image.volume", says: "gone.qcow2 is not there"},
		"storage without images": {infect: func(w *world) {
			ofImage(w)
			w.site.Image.Volume = "local:import/debian.qcow2"
		}, field: "image.volume", says: "does not take content import"},
		"missing storage of the template": {infect: func(w *world) {
			ofImage(w)
			w.site.Image.Storage = "gone"
		}, field: "image.storage", says: "there is no storage gone"},
		"no storage of discs for what is made of an image": {infect: func(w *world) {
			ofImage(w)
			w.site.ISO.Storage = "local"
		}, field: "iso.storage", says: "does not take content iso"},
		"host of the image": {infect: func(w *world) {
			ofImage(w)
			w.site.Image.Host = "pve9"
		}, field: "image.host", says: "pve9"},
		"VMID of the template": {infect: func(w *world) {
			ofImage(w)
			w.site.Template.VMID = 300
		}, field: "template.vmid", says: "300"},
		"pool of another client": {
			cluster: func(c *pvesim.Config) { c.Pools = []string{"bench"} }, field: "pvePool", says: "not the test bed's",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var changes []func(*pvesim.Config)
			if c.cluster != nil {
				changes = append(changes, c.cluster)
			}
			w := newWorld(t, changes...)
			t.Cleanup(w.sim.Close)
			if c.infect != nil {
				c.infect(w)
			}
			b, err := w.bench()
			if err != nil {
				t.Fatal(err)
			}
			faults := must.Get(b.Preflight(t.Context()))(t)
			found := false
			for _, f := range faults {
				if len(f.Mend) == 0 || strings.Contains(f.Text+strings.Join(f.Mend, ""), "pools[") {
					t.Errorf("nothing of the site's mends it: %+v", f)
				}
				found = found || f.Field == c.field && strings.Contains(f.Text, c.says)
			}
			if !found {
				t.Errorf("no fault of %s that says %q in %+v", c.field, c.says, faults)
			}
			err = w.up()
			var f *Fault
			if !errors.As(err, &f) {
				t.Errorf("up says %v", err)
			}
			if n := writes(w); n > 0 || len(w.left()) > 0 && c.cluster == nil {
				t.Errorf("%d changes were made", n)
			}
		})
	}
}
