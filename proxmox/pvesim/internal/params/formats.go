package params

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
)

// format checks a text and says what is wrong with it, as a line with its end; key is whose value
// it is.
type format func(v, key string) string

// formatNamed is a format by its name, or the lists and optional values of one.
func formatNamed(name string) (format, bool) {
	if f, is := formats[name]; is {
		return f, true
	}
	if _, is := PropertyNotations[name]; is {
		return func(v, key string) string { return checkProperties(name, v, key) }, true
	}
	if of, isList := strings.CutSuffix(name, "-list"); isList {
		f, known := formatNamed(of)
		return func(v, key string) string { return each(f, SplitList(v), key) }, known
	}
	if of, isOpt := strings.CutSuffix(name, "-opt"); isOpt {
		f, known := formatNamed(of)
		return func(v, key string) string {
			if v == "" || v == "0" {
				return ""
			}
			return f(v, key)
		}, known
	}
	return nil, false
}

func each(f format, items []string, key string) string {
	for _, v := range items {
		if why := f(v, key); why != "" {
			return why
		}
	}
	return ""
}

// like is a format of texts that match; the error may name the value with %s.
func like(pattern, otherwise string) format {
	re := whole(pattern)
	return func(v, _ string) string {
		switch {
		case re.MatchString(v):
			return ""
		case strings.Contains(otherwise, "%s"):
			return fmt.Sprintf(otherwise, v) + "\n"
		}
		return otherwise + "\n"
	}
}

// when is a format of values for which ok holds.
func when(ok func(v string) bool, otherwise string) format {
	return func(v, _ string) string {
		switch {
		case ok(v):
			return ""
		case strings.Contains(otherwise, "%s"):
			return fmt.Sprintf(otherwise, v) + "\n"
		}
		return otherwise + "\n"
	}
}

func oneOf(values ...string) func(string) bool {
	return func(v string) bool { return slices.Contains(values, v) }
}

// Patterns of names.
const (
	UserName  = `[^\s:/]+`
	RealmName = `[A-Za-z][A-Za-z0-9\.\-_]+`
	TokenName = `[A-Za-z][A-Za-z0-9\.\-_]+`
	volumeID  = `(?i)[a-z][a-z0-9\-_.]*[a-z0-9]:.+`
)

// formats are the server's checks by their names, without the pve- in front of some.
var formats = map[string]format{
	"address":                    when(isAddress, "value does not look like a valid address: %s"),
	"CIDR":                       when(isNetwork(true, true), "value does not look like a valid CIDR network"),
	"CIDRv4":                     when(isNetwork(true, false), "value does not look like a valid IPv4 CIDR network"),
	"CIDRv6":                     when(isNetwork(false, true), "value does not look like a valid IPv6 CIDR network"),
	"disk-size":                  like(`(\d+(\.\d+)?)([KMGT](?:iB)?)?`, "value does not look like a valid disk size: %s"),
	"dns-name":                   when(dnsName.MatchString, "value does not look like a valid DNS name"),
	"email":                      like(`[^\s@]+@[^\s@]+`, "value does not look like a valid email address"),
	"ipv4":                       when(isIPv4, "value does not look like a valid IPv4 address"),
	"ipv6":                       when(isIPv6, "value does not look like a valid IPv6 address"),
	"mac-addr":                   like(`[a-fA-F0-9][02468aceACE](?::[a-fA-F0-9]{2}){5}`, "value does not look like a valid unicast MAC address"),
	"mac-prefix":                 like(`[a-fA-F0-9][02468aceACE](?::[a-fA-F0-9]{2}){0,2}:?`, "value is not a valid unicast MAC address prefix"),
	"urlencoded":                 like(`[-%a-zA-Z0-9_.!~*'()]*`, "invalid urlencoded string: %s"),
	"bridge-id":                  like(`[-_.\w]+`, "invalid bridge ID '%s'"),
	"configid":                   like(`[a-zA-Z][a-zA-Z0-9_-]+`, "invalid configuration ID '%s'"),
	"cpuset":                     when(isCPUSet, "unable to parse cpuset '%s'"),
	"groupid":                    like(`[A-Za-z0-9\.\-_]+`, "group name '%s' contains invalid characters"),
	"ha-node":                    like(`[a-zA-Z0-9](?:[a-zA-Z0-9\-]*[a-zA-Z0-9])?(?::\d+)?`, "invalid ha node: %s"),
	"ha-resource-id":             like(`[a-z]+:\S+`, "invalid HA resource id"),
	"ha-resource-or-vm-id":       like(`(?:[1-9][0-9]{2,8}|[a-z]+:\S+)`, "invalid HA resource id"),
	"hotplug-features":           when(isHotplug, "unable to parse hotplug option"),
	"iface":                      like(`[a-zA-Z][a-zA-Z0-9_]{1,20}([:\.]\d+)?`, "invalid network interface name '%s'"),
	"ipv4-config":                when(isIPv4Config, "value does not look like a valid ipv4 network configuration"),
	"ipv6-config":                when(isIPv6Config, "value does not look like a valid ipv6 network configuration"),
	"node":                       like(`[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?`, "value does not look like a valid node name"),
	"phys-bits":                  when(isPhysBits, "value must be an integer between 8 and 64 or 'host'"),
	"poolid":                     like(PoolName, "pool name '%s' contains invalid characters"),
	"priv":                       when(access.IsPrivilege, "invalid privilege '%s'"),
	"qm-bootdev":                 when(isBootDevice, "invalid boot device '%s'"),
	"qm-bootdisk":                when(isBootDisk, "invalid boot disk '%s'"),
	"realm":                      like(RealmName, "value does not look like a valid realm"),
	"roleid":                     like(`[A-Za-z0-9\.\-_]+`, "role name '%s' contains invalid characters"),
	"startup-order":              when(isStartup, "unable to parse startup options"),
	"storage-content":            when(oneOf(contentTypes...), "invalid content type '%s'"),
	"storage-id":                 like(storageName, "storage ID '%s' contains illegal characters"),
	"storage-pair":               like(storageName+`(?::`+storageName+`)?|1`, "storage pair '%s' contains illegal characters"),
	"tag":                        like(`[a-zA-Z0-9_][a-zA-Z0-9_\-+.]*`, "invalid characters in tag"),
	"task-status-type":           when(oneOf("ok", "error", "warning", "unknown"), "invalid status type '%s'"),
	"tokenid":                    like(UserName+"@"+RealmName+"!"+TokenName, "value '%s' does not look like a valid token ID"),
	"userid":                     like(UserName+"@"+RealmName, "value does not look like a valid user name"),
	"vlan-id-or-range":           when(isVLANRange, "invalid VLAN tag '%s'"),
	"vmid":                       like(`[1-9][0-9]{2,8}`, "value does not look like a valid VM ID"),
	"volume-id":                  like(volumeID, "unable to parse volume ID '%s'"),
	"volume-id-or-absolute-path": like(`/.+|`+volumeID, "unable to parse volume ID '%s'"),
	"volume-id-or-qm-path":       like(`none|cdrom|/.+|`+volumeID, "unable to parse volume ID '%s'"),
}

const storageName = `[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]`

var contentTypes = []string{"images", "rootdir", "vztmpl", "iso", "backup", "snippets", "import", "none"}

// PoolName is the pattern of pools' names.
const PoolName = `[A-Za-z0-9\.\-_]+(?:/[A-Za-z0-9\.\-_]+){0,2}`

var dnsName = whole(`([a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?`)

// checkProperties checks a property string that has a name, and what holds for it besides.
func checkProperties(name, v, key string) string {
	in, why := PropertyFormat(name).Properties(v, key)
	if why != "" {
		return why
	}
	if name == "vm-cpu-conf" {
		return checkCPU(in)
	}
	return ""
}

// checkCPU refuses models that neither QEMU nor an administrator's own list knows.
func checkCPU(in Values) string {
	model := in.Or("cputype", "kvm64")
	if strings.HasPrefix(model, "custom-") || strings.HasPrefix(model, "x86-64-v") || slices.Contains(CPUModels, model) {
		return ""
	}
	return fmt.Sprintf("Built-in cputype '%s' is not defined (missing 'custom-' prefix?)\n", model)
}

func isAddress(v string) bool {
	_, err := netip.ParseAddr(v)
	return err == nil || dnsName.MatchString(v)
}

func isIPv4(v string) bool { return isCIDR(v+"/32", true, false) }
func isIPv6(v string) bool { return isCIDR(v+"/128", false, true) }

func isNetwork(v4, v6 bool) func(string) bool {
	return func(v string) bool { return isCIDR(v, v4, v6) }
}

func isCIDR(v string, v4, v6 bool) bool {
	p, err := netip.ParsePrefix(v)
	if err != nil {
		return false
	}
	return p.Bits() >= 8 && (v4 && p.Addr().Is4() || v6 && p.Addr().Is6())
}

func isIPv4Config(v string) bool { return v == "dhcp" || isCIDR(v, true, false) }

func isIPv6Config(v string) bool { return v == "dhcp" || v == "auto" || isCIDR(v, false, true) }

func isPhysBits(v string) bool {
	n, err := strconv.Atoi(v)
	return v == "host" || err == nil && n >= 8 && n <= 64
}

var (
	cpuSet    = whole(`\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*`)
	bootDisk  = whole(`(?:ide[0-3]|sata[0-5]|scsi(?:[0-9]|[12]\d|30)|virtio(?:\d|1[0-5]))`)
	bootOther = whole(`(?:net(?:[0-9]|[12]\d|3[01])|hostpci(?:\d|1[0-5])|usb(?:\d|1[0-3]))`)
	startUp   = regexp.MustCompile(`^(?:(?:order=)?\d+|up=\d+|down=\d+)$`)
	vlanRange = regexp.MustCompile(`^(\d+)(?:-(\d+))?$`)
)

func isCPUSet(v string) bool     { return cpuSet.MatchString(v) }
func isBootDisk(v string) bool   { return bootDisk.MatchString(v) }
func isBootDevice(v string) bool { return isBootDisk(v) || bootOther.MatchString(v) }

func isHotplug(v string) bool {
	if v == "0" || v == "1" {
		return true
	}
	for _, part := range SplitList(v) {
		if !slices.Contains([]string{"network", "disk", "cpu", "memory", "usb", "cloudinit"}, part) {
			return false
		}
	}
	return true
}

func isStartup(v string) bool {
	for part := range strings.SplitSeq(v, ",") {
		if part = strings.TrimSpace(part); part != "" && !startUp.MatchString(part) {
			return false
		}
	}
	return true
}

func isVLANRange(v string) bool {
	m := vlanRange.FindStringSubmatch(v)
	if m == nil {
		return false
	}
	from, _ := strconv.Atoi(m[1])
	to := from
	if m[2] != "" {
		to, _ = strconv.Atoi(m[2])
	}
	return from >= 2 && to <= 4094 && from <= to
}
