package cli

import (
	"fmt"
	"net"
	"regexp"
	"strings"
)

var (
	dnsName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	image   = regexp.MustCompile(`^[a-z0-9]+([./:_@-][A-Za-z0-9]+|--+[A-Za-z0-9]+|__[A-Za-z0-9]+)*$`)
)

// ParseNamespace reads the name of a namespace.
func ParseNamespace(text string) (string, error) {
	if !dnsName.MatchString(text) || len(text) > 63 || strings.Contains(text, ".") {
		return "", fmt.Errorf("must be a name of at most 63 lower-case letters, digits and '-', was %q", text)
	}
	return text, nil
}

// IsName reports whether a text can name an object.
func IsName(text string) bool { return dnsName.MatchString(text) && len(text) <= 253 }

// ParseName reads the name of an object.
func ParseName(text string) (string, error) {
	if !IsName(text) {
		return "", fmt.Errorf("must be a name of lower-case letters, digits, '-' and '.', was %q", text)
	}
	return text, nil
}

// IsHost reports whether a text is a DNS name or an address.
func IsHost(text string) bool {
	return net.ParseIP(text) != nil || IsName(text)
}

// IsImage reports whether a text is the name of a container image.
func IsImage(text string) bool { return image.MatchString(text) }

// ParseImage reads the name of a container image.
func ParseImage(text string) (string, error) {
	if !IsImage(text) {
		return "", fmt.Errorf("must be an image such as registry.example/plimsoll:v1.2.3, was %q", text)
	}
	return text, nil
}
