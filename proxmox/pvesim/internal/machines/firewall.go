package machines

import (
	"crypto/sha1"
	"encoding/hex"
	"maps"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

//nolint:gosec // it is what the server detects changes by

const firewallOptions = `delete?:configid-list dhcp?:bool digest?:str[..64] enable?:bool ipfilter?:bool
	log_level_in?:enum(emerg,alert,crit,err,warning,notice,info,debug,nolog)
	log_level_out?:enum(emerg,alert,crit,err,warning,notice,info,debug,nolog)
	macfilter?:bool ndp?:bool policy_in?:enum(ACCEPT,REJECT,DROP) policy_out?:enum(ACCEPT,REJECT,DROP) radv?:bool`

// firewallDigest is of the file that the options are in, which is empty without options.
func firewallDigest(m *world.Guest) string {
	var b strings.Builder
	if len(m.Firewall) > 0 {
		b.WriteString("[OPTIONS]\n\n")
		vmconf.Text(&b, m.Firewall)
	}
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

func getFirewall(k *call) (any, error) {
	all := map[string]any{}
	m := k.World.VMs[k.id()]
	if m == nil { // whose options are as empty as those of any other
		m = &world.Guest{}
	}
	for key, value := range m.Firewall {
		all[key] = value
		if value == "0" || value == "1" {
			all[key] = int(value[0] - '0')
		}
	}
	all["digest"] = firewallDigest(m)
	return all, nil
}

func putFirewall(k *call) (any, error) {
	m, err := k.vm()
	if err != nil {
		return nil, err
	}
	if d := k.In["digest"]; d != "" && d != firewallDigest(m) {
		return nil, failure.New("detected modified configuration - file changed by other user? Try again.")
	}
	if err := k.Errand().Write(m.ID); err != nil {
		return nil, err
	}
	fw := maps.Clone(m.Firewall)
	if fw == nil {
		fw = map[string]string{}
	}
	for _, key := range k.In.List("delete") {
		delete(fw, key)
	}
	for key, value := range k.In {
		if key != "node" && key != "vmid" && key != "delete" && key != "digest" {
			fw[key] = value
		}
	}
	m.Firewall = fw
	return nil, nil
}
