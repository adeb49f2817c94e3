package pvesim

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

//nolint:gosec // it is what the server tells changes by

// options are the declared keys of a configuration.
var options = sync.OnceValue(func() *params.Schema { return params.Declare(params.QemuConfig) })

// isOption reports whether there is such a key.
func isOption(key string) bool {
	return options().LookUp(key) != nil && key != "cdrom" || key == "vmstate" || key == "meta"
}

var (
	netKey   = regexp.MustCompile(`^net\d+$`)
	driveKey = regexp.MustCompile(`^(?:(?:ide|sata|scsi|virtio)\d+|efidisk0|tpmstate0)$`)
	unused   = regexp.MustCompile(`^unused\d+$`)
	ciKey    = regexp.MustCompile(`^(?:cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys|ipconfig\d+)$`)
)

func isNet(key string) bool       { return netKey.MatchString(key) }
func isDrive(key string) bool     { return driveKey.MatchString(key) }
func isUnused(key string) bool    { return unused.MatchString(key) }
func isCloudInit(key string) bool { return ciKey.MatchString(key) }

// isNumber reports whether a key's values are told as numbers. All others are texts, those that look
// like numbers too.
func isNumeric(key string) bool {
	p := options().LookUp(key)
	return p != nil && (p.Typ == "integer" || p.Typ == "number" || p.Typ == "boolean")
}

// shown is a value as answers have it.
func shown(key, value string) any {
	switch {
	case key == "cipassword":
		return "**********"
	case isNumeric(key):
		return json.Number(strings.TrimPrefix(value, "+"))
	}
	return value
}

// agentEnabled reports whether a configuration has the guest agent on.
func agentEnabled(conf map[string]string) bool {
	return params.PropertyString("qm-agent", conf["agent"]).Is("enabled")
}

// memory is a configuration's in MiB, and cpus how many it has.
func memoryOf(conf map[string]string) int64 {
	text := conf["memory"]
	if text == "" {
		return 512
	}
	if mb, err := strconv.ParseInt(text, 10, 64); err == nil { // which it nearly always is
		return mb
	}
	mb, err := strconv.ParseInt(params.PropertyString("qm-memory", text).Or("current", "512"), 10, 64)
	if err != nil {
		return 512
	}
	return mb
}

func cpusOf(conf map[string]string) int {
	all := params.Values(conf)
	return all.Int("vcpus", all.Int("sockets", 1)*all.Int("cores", 1))
}

// normalTags are tags as the server keeps them.
func (c *Cluster) normalTags(text string) string {
	style, _ := c.options["tag-style"].(string)
	tags := params.SplitList(text)
	if !strings.Contains(style, "case-sensitive=1") {
		for i, tag := range tags {
			tags[i] = strings.ToLower(tag)
		}
	}
	var once []string
	for _, tag := range tags {
		if !slices.Contains(once, tag) {
			once = append(once, tag)
		}
	}
	if !strings.Contains(style, "ordering=config") {
		slices.Sort(once)
	}
	return strings.Join(once, ";")
}

// mayTag refuses tags that somebody may not set or remove: those that are registered, and all others
// as far as the datacenter's options narrow them.
func (j *job) mayTag(id int, before, after string) error {
	if j.c.access.May(j.who, "/", "Sys.Modify") {
		return nil
	}
	was, is := params.SplitList(before), params.SplitList(after)
	for _, tag := range slices.Concat(was, is) {
		if slices.Contains(was, tag) && slices.Contains(is, tag) {
			continue
		}
		if err := j.onVM(id, "", "VM.Config.Options"); err != nil {
			return err
		}
		if !j.c.tagAllowed(tag) {
			return failure.New("'Sys.Modify' required on '/' for modifying tag '%s'", tag)
		}
	}
	return nil
}

func (c *Cluster) tagAllowed(tag string) bool {
	registered, _ := c.options["registered-tags"].(string)
	if slices.Contains(params.SplitList(registered), tag) {
		return false
	}
	text, _ := c.options["user-tag-access"].(string)
	allow, list := "free", []string(nil)
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "user-allow":
			allow = value
		case "user-allow-list":
			list = params.SplitList(value)
		}
	}
	switch allow {
	case "free":
		return true
	case "existing":
		return slices.Contains(list, tag) || c.tagUsed(tag)
	case "list":
		return slices.Contains(list, tag)
	}
	return false
}

func (c *Cluster) tagUsed(tag string) bool {
	for _, m := range c.vms {
		if slices.Contains(params.SplitList(m.conf["tags"]), tag) {
			return true
		}
	}
	return false
}

// parseNet reads a network card, and printNet writes one; a card without address gets one.
func parseNet(text string) params.Values { return params.PropertyString("qm-net", text) }

func (c *Cluster) printNet(net params.Values) string {
	if !net.Has("macaddr") {
		net["macaddr"] = c.newMAC()
	}
	parts := []string{net["model"] + "=" + strings.ToUpper(net["macaddr"])}
	for _, key := range sorted(net) {
		if key != "model" && key != "macaddr" {
			parts = append(parts, key+"="+net[key])
		}
	}
	return strings.Join(parts, ",")
}

// newMAC draws an address for a card.
func (c *Cluster) newMAC() string {
	prefix, _ := c.options["mac_prefix"].(string)
	if prefix == "" {
		prefix = "BC:24:11"
	}
	rng := c.rng("addresses")
	mac := strings.TrimSuffix(strings.ToUpper(prefix), ":")
	for len(mac) < len("00:00:00:00:00:00") {
		mac += fmt.Sprintf(":%02X", rng.IntN(256))
	}
	return mac
}

// newUUID draws a random UUID.
func newUUID(rng *rand.Rand) string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rng.IntN(256))
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// withUUID is a value of smbios1 with another UUID.
func withUUID(smbios, uuid string) string {
	parts := []string{"uuid=" + uuid}
	for part := range strings.SplitSeq(smbios, ",") {
		if part != "" && !strings.HasPrefix(part, "uuid=") {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// uuidOf is what the guest sees as its system's.
func uuidOf(conf map[string]string) string {
	return params.PropertyString("qm-smbios1", conf["smbios1"])["uuid"]
}

// escaped is a line of a description as it stands in the file.
func escaped(line string) string {
	var b strings.Builder
	for i := range len(line) {
		if ch := line[i]; ch < 0x20 || ch > 0x7e || ch == '%' || ch == ':' {
			fmt.Fprintf(&b, "%%%02X", ch)
		} else {
			b.WriteByte(ch)
		}
	}
	return b.String()
}

func confText(b *strings.Builder, conf map[string]string) {
	if text := conf["description"]; text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			b.WriteString("#" + escaped(line) + "\n")
		}
	}
	for _, key := range sorted(conf) {
		if key != "description" {
			b.WriteString(key + ": " + conf[key] + "\n")
		}
	}
}

// digest is by what callers tell whether the configuration file has changed.
func (m *vm) digest() string {
	var b strings.Builder
	confText(&b, m.conf)
	if len(m.pending) > 0 {
		b.WriteString("\n[PENDING]\n")
		for _, key := range sorted(m.pending) {
			if v := m.pending[key]; v != nil {
				b.WriteString(key + ": " + *v + "\n")
			} else {
				fmt.Fprintf(&b, "delete: %s %t\n", key, m.forced[key])
			}
		}
	}
	if len(m.made) > 0 {
		b.WriteString("\n[special:cloudinit]\n")
		confText(&b, m.made)
	}
	for _, s := range m.snaps {
		fmt.Fprintf(&b, "\n[%s]\n#%s\n%s %s %d\n", s.name, escaped(s.description), s.parent, s.state, s.at.Unix())
		confText(&b, s.conf)
	}
	sum := sha1.Sum([]byte(b.String())) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}
