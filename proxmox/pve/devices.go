package pve

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A disk that a person has put into a machine goes with the machine. What drives and devices a machine was made with is
// written down, and one that has others is left until they are out of it.

// deviceKey is what a machine has of its host's.
var deviceKey = regexp.MustCompile(`^(hostpci|usb|virtiofs|serial|parallel)\d+$`)

// devices are the drives of a machine that hold data, with their volumes, and what it has of its host's. Discs that are
// in a drive are not the machine's, and what its firmware remembers is not data.
func devices(raw map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range raw {
		switch {
		case driveKey.MatchString(key):
			d := drive(value)
			firmware := strings.HasPrefix(key, "efidisk") || strings.HasPrefix(key, "tpmstate")
			if d.Media != "cdrom" && !strings.Contains(d.Name, "cloudinit") && !firmware {
				all[key] = d.ID
			}
		case deviceKey.MatchString(key):
			if first, _ := properties(value); first != "socket" && first != "spice" { // these end in the host's own software
				all[key] = ""
			}
		}
	}
	return all
}

// configured are the devices that a machine has with a configuration that is written over the one it had.
func configured(c *VMConfig, values map[string]string) map[string]string {
	raw := maps.Clone(c.Raw)
	maps.Copy(raw, values)
	return devices(raw)
}

// strange are the drives and devices of a machine that its order did not make. Where that was not kept, it made what
// the template has, and the disk that it boots from.
func (w *work) strange(c *VMConfig) []string {
	made := w.i.Devices
	if len(made) == 0 {
		made = map[string]string{bootDisk(c): ""}
		w.mu.Lock()
		for _, key := range w.view.templates[w.p.Template.On(w.i.Host)].devices {
			made[key] = ""
		}
		w.mu.Unlock()
	}
	var strange []string
	has := devices(c.Raw)
	for _, key := range slices.Sorted(maps.Keys(has)) {
		id := has[key]
		was, there := made[key]
		own := there && (was == "" || was == id || strings.Contains(id, "vm-"+itoa(w.i.VMID)+"-")) // it was moved to another storage
		left := strings.HasPrefix(key, "unused") && id != "" && slices.Contains(slices.Collect(maps.Values(made)), id)
		if !own && !left {
			strange = append(strange, strings.TrimSpace(key+" "+cmp.Or(id, c.Raw[key])))
		}
	}
	return strange
}

// takeOut is what a person can do about drives and devices that are not the machine's.
func takeOut(vmid int, strange []string) string {
	key, _, _ := strings.Cut(strange[0], " ")
	if deviceKey.MatchString(key) {
		return fmt.Sprintf("take it out: qm set %d --delete %s", vmid, key)
	}
	return fmt.Sprintf("move it to another machine: qm disk move %d %s --target-vmid VMID; or, if what is on it may be lost, remove it: qm disk unlink %[1]d --idlist %[2]s --force 1",
		vmid, key)
}
