package reference

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// formatProblem says how text breaks the format of a property.
func (s *Schema) formatProblem(p *Property, path, text string) string {
	if p.Inline != nil {
		return s.stringProblem(p.Inline, path, text)
	}
	if p.Format == "" {
		return ""
	}
	return s.namedProblem(p.Format, path, text)
}

func (s *Schema) namedProblem(name, path, text string) string {
	f := s.Formats[name]
	if f == nil {
		f = undumped[name]
	}
	switch {
	case f == nil:
		return "no such format: " + name
	case f.String != nil:
		if problem := s.stringProblem(f.String, path, text); problem != "" {
			return problem
		}
		if name == "pve-vm-cpu-conf" {
			return cpuProblem(f, text)
		}
		return ""
	case f.ListOf != "":
		for _, item := range splitList(text) {
			if problem := f.Item.problem(f.ListOf, item); problem != "" {
				return problem
			}
		}
		return ""
	case f.EmptyOr != "":
		if text == "" {
			return ""
		}
		return f.Item.problem(f.EmptyOr, text)
	}
	return f.problem(name, text)
}

var listSeparators = regexp.MustCompile(`[\s,;\x00]+`)

func splitList(text string) []string {
	return slices.DeleteFunc(listSeparators.Split(text, -1), func(item string) bool { return item == "" })
}

// problem is the format's own text, when its expression, enumeration or check refuses.
func (f *Format) problem(name, text string) string {
	var ok bool
	switch {
	case f.regex != nil:
		ok = f.regex.MatchString(text)
	case f.Enum != nil:
		ok = slices.Contains(f.Enum, text)
	default:
		check := checks[name]
		if check == nil {
			return "no such check: " + name
		}
		ok = check(text)
	}
	if ok {
		return ""
	}
	if f.Error == "" {
		return fmt.Sprintf("'%s' is not of format %s", text, name)
	}
	return strings.ReplaceAll(f.Error, "VALUE", text)
}

// undumped are formats that properties of property strings name, and that are not among the dumped
// ones. Their texts are those that the server was heard to say, where it was.
var undumped = map[string]*Format{
	"pve-ipv4-config":     {Error: "value does not look like a valid ipv4 network configuration", Check: "dhcp or CIDR"},
	"pve-ipv6-config":     {Error: "value does not look like a valid ipv6 network configuration", Check: "auto, dhcp or CIDR"},
	"pve-phys-bits":       {Error: "value must be an integer between 8 and 64 or 'host'", Check: "8..64 or host"},
	"pve-qm-bootdev-list": {ListOf: "pve-qm-bootdev", Item: &Format{Error: "invalid boot device 'VALUE'"}},
}

var (
	bootDevice  = regexp.MustCompile(`^((ide|sata|scsi|virtio|net|usb|hostpci)\d+|efidisk0|tpmstate0)$`)
	volumeID    = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9]:.+$`)
	haResource  = regexp.MustCompile(`^(vm:|ct:)?[1-9][0-9]{2,8}$`)
	haNode      = regexp.MustCompile(`^[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?(:\d+)?$`)
	cpuSet      = regexp.MustCompile(`^\d+(-\d+)?(,\d+(-\d+)?)*$`)
	startup     = regexp.MustCompile(`^(order=)?\d+(,(up|down)=\d+)*$`)
	privilege   = regexp.MustCompile(`^[A-Z][A-Za-z]*(\.[A-Z][A-Za-z]*)+$`)
	mail        = regexp.MustCompile(`^[^\s@]+@[^\s@]+$`)
	vlans       = regexp.MustCompile(`^\d+(-\d+)?$`)
	dnsName     = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9\-]*[a-zA-Z0-9])?$`)
	storagePair = regexp.MustCompile(`^([a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9](:[a-zA-Z][a-zA-Z0-9\-_.]*[a-zA-Z0-9])?|1)$`)
)

// checks are the formats that no regular expression says.
var checks = map[string]func(string) bool{
	"CIDR":                     func(s string) bool { return cidr(s, true) || cidr(s, false) },
	"CIDRv4":                   func(s string) bool { return cidr(s, true) },
	"CIDRv6":                   func(s string) bool { return cidr(s, false) },
	"address":                  func(s string) bool { return address(s) || dnsName.MatchString(s) },
	"email":                    mail.MatchString,
	"ipv4mask":                 ipv4mask,
	"ipv6":                     func(s string) bool { a, err := netip.ParseAddr(s); return err == nil && a.Is6() },
	"pve-cpuset":               cpuSet.MatchString,
	"pve-ha-node":              haNode.MatchString,
	"pve-ha-resource-or-vm-id": haResource.MatchString,
	"pve-hotplug-features":     hotplug,
	"pve-ipv4-config":          func(s string) bool { return s == "dhcp" || cidr(s, true) },
	"pve-ipv6-config":          func(s string) bool { return s == "dhcp" || s == "auto" || cidr(s, false) },
	"pve-phys-bits":            physBits,
	"pve-priv":                 privilege.MatchString,
	"pve-qm-bootdev":           bootDevice.MatchString,
	"pve-qm-bootdisk":          bootDevice.MatchString,
	"pve-startup-order":        startup.MatchString,
	"pve-vlan-id-or-range":     vlans.MatchString,
	"pve-volume-id":            volumeID.MatchString,
	"storage-pair":             storagePair.MatchString,
	"pve-volume-id-or-absolute-path": func(s string) bool {
		return strings.HasPrefix(s, "/") || volumeID.MatchString(s)
	},
	"pve-volume-id-or-qm-path": func(s string) bool {
		return s == "none" || s == "cdrom" || strings.HasPrefix(s, "/") || volumeID.MatchString(s)
	},
}

func address(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// cidr is an address with the length of its network, from 8 up.
func cidr(s string, four bool) bool {
	p, err := netip.ParsePrefix(s)
	return err == nil && p.Addr().Is4() == four && p.Bits() > 7
}

func ipv4mask(s string) bool {
	a, err := netip.ParseAddr(s)
	if err != nil || !a.Is4() {
		return false
	}
	four := a.As4()
	n := uint32(four[0])<<24 | uint32(four[1])<<16 | uint32(four[2])<<8 | uint32(four[3])
	return ^n&(^n+1) == 0
}

func hotplug(s string) bool {
	if s == "0" || s == "1" {
		return true
	}
	for _, item := range splitList(s) {
		if !slices.Contains([]string{"network", "disk", "usb", "memory", "cpu", "cloudinit"}, item) {
			return false
		}
	}
	return true
}

func physBits(s string) bool {
	n, err := strconv.Atoi(s)
	return s == "host" || err == nil && n >= 8 && n <= 64
}

// cpuProblem refuses CPU types that are neither built in nor somebody's own.
func cpuProblem(f *Format, text string) string {
	first, _, _ := strings.Cut(text, ",")
	kind := strings.TrimPrefix(first, "cputype=")
	if strings.Contains(kind, "=") || strings.HasPrefix(kind, "custom-") || slices.Contains(f.String["reported-model"].Enum, kind) {
		return ""
	}
	return fmt.Sprintf("Built-in cputype '%s' is not defined (missing 'custom-' prefix?)", kind)
}

// stringProblem says how text breaks a property string, one line for each of its properties.
func (s *Schema) stringProblem(ps map[string]*Property, path, text string) string {
	given, problem := parseString(ps, text)
	if problem != "" {
		return problem
	}
	v := verifier{schema: s, errs: map[string]string{}}
	v.object(&Property{Properties: ps}, path+".", given)
	if len(v.errs) == 0 {
		return ""
	}
	var lines []string
	for key, problem := range v.errs {
		lines = append(lines, key+": "+problem)
	}
	sort.Strings(lines)
	return "format error\n" + strings.Join(lines, "\n")
}

// folded are the ways to say yes and no in property strings.
var folded = map[string]string{"on": "1", "yes": "1", "true": "1", "off": "0", "no": "0", "false": "0"}

// parseString takes a property string apart, and replaces aliases by the names that they mean.
func parseString(ps map[string]*Property, text string) (map[string]any, string) {
	given := map[string]any{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		key, value, named := strings.Cut(part, "=")
		if !named {
			value = part
			if key = defaultKey(ps); key == "" {
				return nil, "value without key, but schema does not define a default key"
			}
		}
		p := ps[key]
		if p != nil && p.KeyAlias != "" {
			given[p.KeyAlias] = key
		}
		if p != nil && p.Alias != "" {
			key, p = p.Alias, ps[p.Alias]
		}
		if _, twice := given[key]; twice {
			return nil, fmt.Sprintf("duplicate key in comma-separated list property: %s", key)
		}
		if p != nil && p.Type == "boolean" && folded[strings.ToLower(value)] != "" {
			value = folded[strings.ToLower(value)]
		}
		given[key] = value
	}
	return given, ""
}

func defaultKey(ps map[string]*Property) string {
	for name, p := range ps {
		if p.DefaultKey {
			return name
		}
	}
	return ""
}
