package vmconf

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
)

// ShownConf is a configuration as answers have it.
func ShownConf(conf map[string]string, digest string) map[string]any {
	all := map[string]any{}
	for key, value := range conf {
		all[key] = Shown(key, value)
	}
	if digest != "" {
		all["digest"] = digest
	}
	return all
}

// ResolveCDROM turns the old name of a CD-ROM drive into the one it has.
func ResolveCDROM(conf map[string]string) {
	if value, given := conf["cdrom"]; given {
		if !strings.Contains(value, "media=") {
			value += ",media=cdrom"
		}
		delete(conf, "cdrom")
		conf["ide2"] = value
	}
}

// CheckSSHKeys refuses what is no list of public keys.
func CheckSSHKeys(conf map[string]string) error {
	text, err := url.PathUnescape(conf["sshkeys"])
	if err != nil {
		return failure.New("SSH public key validation error")
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) != "" && !isPublicKey(line) {
			return failure.New("SSH public key validation error")
		}
	}
	return nil
}

var keyType = regexp.MustCompile(`^(?:ssh-(?:ed25519|rsa|dss)|ecdsa-sha2-nistp(?:256|384|521)|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)$`)

// isPublicKey reports whether a line holds a key whose type is the one that it says.
func isPublicKey(line string) bool {
	fields := strings.Fields(line)
	at := slices.IndexFunc(fields, keyType.MatchString)
	if at < 0 || at+1 >= len(fields) {
		return false
	}
	blob, err := base64.StdEncoding.DecodeString(fields[at+1])
	n := len(fields[at])
	return err == nil && len(blob) > 4+n && string(blob[4:4+n]) == fields[at]
}

// options are the declared keys of a configuration.
var options = sync.OnceValue(func() *params.Schema { return params.Declare(params.QemuConfig) })

// IsOption reports whether there is such a key.
func IsOption(key string) bool {
	return options().LookUp(key) != nil && key != "cdrom" || key == "vmstate" || key == "meta"
}

var (
	netKey = regexp.MustCompile(`^net\d+$`)
	unused = regexp.MustCompile(`^unused\d+$`)
	ciKey  = regexp.MustCompile(`^(?:cicustom|cipassword|citype|ciuser|ciupgrade|nameserver|searchdomain|sshkeys|ipconfig\d+)$`)
)

// IsNet reports whether a key is a network card.
func IsNet(key string) bool { return netKey.MatchString(key) }

// IsDrive reports whether a key is a drive.
func IsDrive(key string) bool {
	switch bus := strings.TrimRight(key, "0123456789"); bus {
	case "ide", "sata", "scsi", "virtio":
		return bus != key
	}
	return key == "efidisk0" || key == "tpmstate0"
}

// IsUnused reports whether a key is a disk that no drive has.
func IsUnused(key string) bool { return unused.MatchString(key) }

// IsCloudInit reports whether a key is for cloud-init.
func IsCloudInit(key string) bool { return ciKey.MatchString(key) }

// isNumeric reports whether a key's values are shown as numbers. All others are texts, those that
// look like numbers too.
func isNumeric(key string) bool {
	p := options().LookUp(key)
	return p != nil && (p.Typ == "integer" || p.Typ == "number" || p.Typ == "boolean")
}

// Shown is a value as answers have it.
func Shown(key, value string) any {
	switch {
	case key == "cipassword":
		return "**********"
	case isNumeric(key):
		return json.Number(strings.TrimPrefix(value, "+"))
	}
	return value
}

// AgentEnabled reports whether a configuration has the guest agent on.
func AgentEnabled(conf map[string]string) bool {
	return params.PropertyString("qm-agent", conf["agent"]).Is("enabled")
}

// MemoryOf is a configuration's memory in MiB.
func MemoryOf(conf map[string]string) int64 {
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

// CPUsOf is how many processors a configuration has.
func CPUsOf(conf map[string]string) int {
	all := params.Values(conf)
	return all.Int("vcpus", all.Int("sockets", 1)*all.Int("cores", 1))
}

// ParseNet reads a network card, and printNet writes one; a card without address gets one.
func ParseNet(text string) params.Values { return params.PropertyString("qm-net", text) }

// NewUUID draws a random UUID.
func NewUUID(rng *rand.Rand) string {
	var b [16]byte
	for i := range b {
		b[i] = byte(rng.IntN(256))
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// WithUUID is a value of smbios1 with another UUID.
func WithUUID(smbios, uuid string) string {
	parts := []string{"uuid=" + uuid}
	for part := range strings.SplitSeq(smbios, ",") {
		if part != "" && !strings.HasPrefix(part, "uuid=") {
			parts = append(parts, part)
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ",")
}

// UUIDOf is what the guest sees as its system's.
func UUIDOf(conf map[string]string) string {
	return params.PropertyString("qm-smbios1", conf["smbios1"])["uuid"]
}

// Escaped is a line of a description as it is in the file.
func Escaped(line string) string {
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

// Text writes a configuration as its file has it.
func Text(b *strings.Builder, conf map[string]string) {
	if text := conf["description"]; text != "" {
		for line := range strings.SplitSeq(text, "\n") {
			b.WriteString("#" + Escaped(line) + "\n")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(conf)) {
		if key != "description" {
			b.WriteString(key + ": " + conf[key] + "\n")
		}
	}
}

const cryptAlphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Hashed is a password as the configuration keeps it: in the form of crypt's SHA-256, which nothing
// here ever checks a password against.
func Hashed(password string, rng *rand.Rand) string {
	if strings.HasPrefix(password, "$") && strings.Count(password, "$") >= 3 {
		return password
	}
	salt := make([]byte, 8)
	for i := range salt {
		salt[i] = cryptAlphabet[rng.IntN(len(cryptAlphabet))]
	}
	sum := sha256.Sum256(append(salt, password...))
	return "$5$" + string(salt) + "$" + base64.NewEncoding(cryptAlphabet).WithPadding(base64.NoPadding).EncodeToString(sum[:])
}
