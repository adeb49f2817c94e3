package firstboot

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Secret is a text that must not be seen: all that prints, logs or encodes it shows
// only that it is there. string(s) is the text.
type Secret string

// serverToken is how RKE2 and k3s write the token of their servers; that of agents has another
// user.
var serverToken = regexp.MustCompile(`^K10[^:]*::server:`)

// JoinsServers reports whether the text is a token that servers of RKE2 or k3s join with. Of one
// that is only a password it cannot be known.
func (s Secret) JoinsServers() bool { return serverToken.MatchString(string(s)) }

// String says that there is a secret, or that it is empty.
func (s Secret) String() string {
	if s == "" {
		return "(none)"
	}
	return "(hidden)"
}

// Format prints what String says, regardless of the verb: %x and %d would show the text.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// MarshalText keeps the text out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// redact takes the secrets out of a message.
func redact(message string, secrets ...Secret) string {
	for _, s := range secrets {
		if s != "" {
			message = strings.ReplaceAll(message, string(s), s.String())
		}
	}
	return message
}

// Files are what a machine finds on its disc, by name. They hold the join token; printing or
// encoding them shows names and sizes.
type Files map[string][]byte

// The names of the files, and of the disc that they are looked for on.
const (
	UserData      = "user-data"
	MetaData      = "meta-data"
	NetworkConfig = "network-config"
	DiscLabel     = "cidata"
)

// String is the names with the sizes.
func (f Files) String() string {
	parts := make([]string, 0, len(f))
	for _, name := range slices.Sorted(maps.Keys(f)) {
		parts = append(parts, fmt.Sprintf("%s (%d bytes)", name, len(f[name])))
	}
	return strings.Join(parts, ", ")
}

// Format prints what String says, regardless of the verb.
func (f Files) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, f.String()) }

// MarshalText keeps the files out of JSON and YAML.
func (f Files) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
