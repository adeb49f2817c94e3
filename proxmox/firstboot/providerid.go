package firstboot

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Scheme is a way to form the provider ids of nodes.
type Scheme string

// The schemes. The id of a node never changes once it is set, so the scheme must be that of
// whoever else sets ids in the cluster.
const (
	SchemeProxmox  Scheme = "proxmox"  // proxmox://REGION/VMID, as Proxmox' cloud controllers form it
	SchemeUUID     Scheme = "uuid"     // proxmox://UUID, as Cluster API forms it (CAPMOX)
	SchemeRKE2     Scheme = "rke2"     // rke2://NAME, as RKE2's own cloud controller forms it
	SchemeK3s      Scheme = "k3s"      // k3s://NAME, as k3s' own cloud controller forms it
	SchemeTalos    Scheme = "talos"    // talos://nocloud/NAME; Talos' cloud controller takes it from the meta-data
	SchemeTemplate Scheme = "template" // a text of your own
)

// ProviderID says what the provider ids of a pool's nodes look like. Every id is known before
// its machine is started.
type ProviderID struct {
	Scheme Scheme `json:"scheme"`
	// Template is the text of the scheme template, with {name}, {vmid}, {region}, {uuid} and
	// {host} in it: example://{region}/{name}.
	Template string `json:"template,omitempty"`
}

// placeholders are what may are in a template, with what the values look like.
var placeholders = map[string]string{
	"name":   `[a-z0-9](?:[-a-z0-9]*[a-z0-9])?`,
	"vmid":   `[1-9][0-9]{2,8}`,
	"region": `[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?`,
	"uuid":   `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`,
	"host":   `[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?`,
}

// wholly is the pattern of a placeholder's value and nothing else.
func wholly(placeholder string) *regexp.Regexp {
	return regexp.MustCompile(`^` + placeholders[placeholder] + `$`)
}

var (
	regionPattern = wholly("region")
	uuidPattern   = wholly("uuid")
	hostPattern   = wholly("host")
	braces        = regexp.MustCompile(`\{[^{}]*\}`)
	quotedBraces  = regexp.MustCompile(`\\\{[^{}]*\\\}`) // as QuoteMeta leaves them
	idPattern     = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[!-~]+$`)
)

// template is the id with placeholders.
func (p ProviderID) template() string {
	switch p.Scheme {
	case SchemeProxmox:
		return "proxmox://{region}/{vmid}"
	case SchemeUUID:
		return "proxmox://{uuid}"
	case SchemeRKE2:
		return "rke2://{name}"
	case SchemeK3s:
		return "k3s://{name}"
	case SchemeTalos:
		return "talos://nocloud/{name}"
	case SchemeTemplate:
		return p.Template
	}
	return ""
}

// Validate reports every fault.
func (p ProviderID) Validate() error {
	var f faults
	p.check(&f, "")
	return f.join()
}

func (p ProviderID) check(f *faults, prefix string) {
	if !oneOf(f, prefix+"scheme", p.Scheme, SchemeProxmox, SchemeRKE2, SchemeK3s, SchemeTalos, SchemeUUID, SchemeTemplate) {
		return
	}
	path := prefix + "template"
	if p.Scheme != SchemeTemplate {
		f.must(p.Template == "", path, "must be absent with scheme "+string(p.Scheme), p.Template)
		return
	}
	f.must(idPattern.MatchString(p.Template), path, "must be a name of lower-case letters, :// and a text without blanks", p.Template)
	one, seen := false, map[string]bool{}
	for _, field := range braces.FindAllString(p.Template, -1) {
		name := strings.Trim(field, "{}")
		_, known := placeholders[name]
		f.must(known, path, "must have no placeholders but {name}, {vmid}, {region}, {uuid} and {host}, has "+field, p.Template)
		f.must(!seen[name], path, "must have each placeholder once, has more of "+field, p.Template)
		seen[name] = true
		one = one || name == "name" || name == "vmid" || name == "uuid"
	}
	f.must(!strings.ContainsAny(braces.ReplaceAllString(p.Template, ""), "{}"), path, "must close every brace that it opens", p.Template)
	f.must(one, path, "must have {name}, {vmid} or {uuid}, for no two nodes may share an id", p.Template)
}

// Of returns the provider id of a machine. It says what it must know of the machine and does not.
func (p ProviderID) Of(m Machine) (string, error) {
	var f faults
	p.check(&f, "")
	m.checkIdentity(&f)
	id := p.of(&f, &m)
	if err := f.join(); err != nil {
		return "", err
	}
	return id, nil
}

// of forms the id, noting what is missing.
func (p ProviderID) of(f *faults, m *Machine) string {
	return braces.ReplaceAllStringFunc(p.template(), func(field string) string {
		switch strings.Trim(field, "{}") {
		case "name":
			return m.Name
		case "vmid":
			f.must(m.VMID >= 100 && m.VMID <= 999_999_999, "machine.vmid", "must be from 100 to 999999999 for a provider id with it", m.VMID)
			return strconv.Itoa(m.VMID)
		case "region":
			f.must(m.Region != "", "machine.region", "must be known for a provider id with it", m.Region)
			return m.Region
		case "uuid":
			f.must(m.UUID != "", "machine.uuid", "must be known for a provider id with it", m.UUID)
			return strings.ToLower(m.UUID)
		case "host":
			f.must(m.Host != "", "machine.host", "must be known for a provider id with it", m.Host)
			return m.Host
		}
		return field
	})
}

// Parse reads from a provider id what it says of its machine; what it does not say stays zero.
// An id that is not of the scheme, or that can be read in two ways, is an error.
func (p ProviderID) Parse(id string) (Machine, error) {
	if err := p.Validate(); err != nil {
		return Machine{}, err
	}
	// The longest and the shortest reading of every placeholder in turn: where they agree there
	// is no third.
	long, ok := read(p.template(), "", id)
	if !ok {
		return Machine{}, fmt.Errorf("provider id: must be %s, was %q", p.template(), id)
	}
	short, _ := read(p.template(), "U", id)
	for _, name := range slices.Sorted(maps.Keys(long)) {
		if value := long[name]; short[name] != value {
			return Machine{}, fmt.Errorf("provider id: must have one reading as %s, was %q with %s %q or %q",
				p.template(), id, name, short[name], value)
		}
	}
	vmid, _ := strconv.Atoi(long["vmid"]) // nine digits at most, or none
	return Machine{Name: long["name"], Host: long["host"], Region: long["region"], UUID: long["uuid"], VMID: vmid}, nil
}

// read matches an id with a template. The flag is U, to read as little as possible for each
// placeholder in turn, or empty, to read as much as possible.
func read(template, flag, id string) (map[string]string, bool) {
	var names []string
	pattern := quotedBraces.ReplaceAllStringFunc(regexp.QuoteMeta(template), func(field string) string {
		name := strings.Trim(field, `\{}`)
		names = append(names, name)
		return "(" + placeholders[name] + ")"
	})
	if flag != "" {
		flag = "(?" + flag + ")"
	}
	found := regexp.MustCompile(flag + "^" + pattern + "$").FindStringSubmatch(id)
	if found == nil {
		return nil, false
	}
	values := map[string]string{}
	for i, name := range names {
		values[name] = found[i+1]
	}
	return values, true
}

// SchemeOf says which scheme a provider id looks like, if it is one that is known.
func SchemeOf(id string) (Scheme, bool) {
	for _, s := range []Scheme{SchemeProxmox, SchemeUUID, SchemeRKE2, SchemeK3s} {
		if _, ok := read(ProviderID{Scheme: s}.template(), "", id); ok {
			return s, true
		}
	}
	// Talos' cloud controller forms talos://PLATFORM/ADDRESS where the meta-data names no id.
	if rest, ok := strings.CutPrefix(id, "talos://"); ok && strings.Count(rest, "/") == 1 && idPattern.MatchString(id) {
		return SchemeTalos, true
	}
	return "", false
}

// setters are who gives a node an id of a scheme when no other client does.
var setters = map[Scheme]string{
	SchemeProxmox: "Proxmox' cloud controller manager",
	SchemeUUID:    "Cluster API's Proxmox provider, or a cloud controller manager in that mode",
	SchemeRKE2:    "RKE2's own cloud controller, which disable-cloud-controller switches off",
	SchemeK3s:     "k3s' own cloud controller, which disable-cloud-controller switches off",
	SchemeTalos:   "Talos' cloud controller manager",
}

// Mismatch says in a sentence that a node has another provider id than was planned for it, who
// is likely to have set it, and what to do; it is empty where the ids are equal. A node without
// an id, which may still get one, is said to be without.
func Mismatch(planned, actual string) string {
	if planned == actual {
		return ""
	}
	if actual == "" {
		return fmt.Sprintf("planned as %s, the node has no provider id", planned)
	}
	text := fmt.Sprintf("planned as %s, the node is %s", planned, actual)
	is, known := SchemeOf(actual)
	if was, _ := SchemeOf(planned); !known || was == is {
		return text
	}
	return text + fmt.Sprintf(": an id of scheme %s, such as is set by %s; set the pool's providerID.scheme to %s, or keep that from setting ids",
		is, setters[is], is)
}
