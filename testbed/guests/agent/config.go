package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// kinds are the two programs, as far as their agents differ in what they read.
var kinds = map[string]map[string]valued{
	"rke2": {
		"profile": once, "cloud-provider-name": once, "cloud-provider-config": once, "kubelet-path": once, "audit-policy-file": once,
		"control-plane-resource-requests": several, "control-plane-resource-limits": several, "pod-security-admission-config-file": once,
	},
	"k3s": {
		"with-node-id": yes, "docker": yes, "pause-image": once, "flannel-iface": once, "flannel-conf": once, "flannel-cni-conf": once,
		"vpn-auth": once, "vpn-auth-file": once, "rootless": yes, "prefer-bundled-bin": yes,
	},
}

// valued says what values a flag takes.
type valued int

const (
	once    valued = iota + 1 // one: of several the last counts
	several                   // any number
	yes                       // true or false
)

// common are the flags of both agents.
var common = map[string]valued{
	"debug": yes, "v": once, "vmodule": once, "log": once, "alsologtostderr": yes, "token": once, "token-file": once, "server": once,
	"data-dir": once, "node-name": once, "node-label": several, "node-taint": several, "image-credential-provider-bin-dir": once,
	"image-credential-provider-config": once, "selinux": yes, "lb-server-port": once, "protect-kernel-defaults": yes,
	"container-runtime-endpoint": once, "default-runtime": once, "disable-default-registry-endpoint": yes, "snapshotter": once,
	"private-registry": once, "airgap-extra-registry": several, "node-ip": several, "node-external-ip": several, "node-internal-dns": several,
	"node-external-dns": several, "resolv-conf": once, "kubelet-arg": several, "kube-proxy-arg": several, "enable-pprof": yes, "bind-address": once,
}

// variables are the flags that the environment may set, by the end of the variable's name.
var variables = map[string]string{
	"TOKEN": "token", "TOKEN_FILE": "token-file", "URL": "server", "NODE_NAME": "node-name", "DATA_DIR": "data-dir", "SELINUX": "selinux",
	"LB_SERVER_PORT": "lb-server-port", "RESOLV_CONF": "resolv-conf", "DEBUG": "debug",
}

// settings are what an agent is given, by flag.
type settings map[string][]string

func (s settings) one(flag string) string {
	if v := s[flag]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// read reads an agent's settings. What files say goes before what the environment says, and an
// agent does not start with a flag that it does not know.
func read(kind string, getenv func(string) string) (settings, error) {
	prefix := strings.ToUpper(kind) + "_"
	file := getenv(prefix + "CONFIG_FILE")
	if file == "" {
		file = "/etc/rancher/" + kind + "/config.yaml"
	}
	s, err := merged(file)
	if err != nil {
		return nil, err
	}
	for name, flag := range variables {
		if v := getenv(prefix + name); v != "" && s[flag] == nil {
			s[flag] = []string{v}
		}
	}
	for flag, values := range s {
		takes := common[flag] + kinds[kind][flag] // no flag is in both
		switch {
		case takes == 0:
			return nil, fmt.Errorf("flag provided but not defined: -%s", flag)
		case takes == once || takes == yes:
			s[flag] = values[len(values)-1:]
		}
		if takes == yes {
			if _, err := strconv.ParseBool(s.one(flag)); err != nil {
				return nil, fmt.Errorf("invalid boolean value %q for -%s: parse error", s.one(flag), flag)
			}
		}
	}
	return s, s.complete()
}

// complete reads the token's file, which goes before the token, and wants what nothing works
// without.
func (s settings) complete() error {
	if name := s.one("token-file"); name != "" {
		text, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			return err
		}
		s["token"] = []string{strings.TrimSpace(string(text))}
	}
	for _, flag := range []string{"token", "server"} {
		if s.one(flag) == "" {
			return fmt.Errorf("--%s is required", flag)
		}
	}
	return nil
}

// merged reads a file, and those of the folder with its name and .d at the end, in order. A key
// that comes again replaces the one before, and with + at its end it is added to that.
func merged(file string) (settings, error) {
	files := []string{file}
	entries, err := os.ReadDir(file + ".d")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if end := strings.ToLower(filepath.Ext(e.Name())); !e.IsDir() && (end == ".yaml" || end == ".yml") {
			files = append(files, filepath.Join(file+".d", e.Name()))
		}
	}
	all := settings{}
	for i, name := range files {
		text, err := os.ReadFile(filepath.Clean(name))
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := all.add(text); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return all, nil
}

// add adds what a file says.
func (s settings) add(text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 {
		return err
	}
	pairs := doc.Content[0]
	if pairs.Kind != yaml.MappingNode {
		return errors.New("cannot unmarshal into a map")
	}
	for i := 0; i+1 < len(pairs.Content); i += 2 {
		key, adds := strings.CutSuffix(pairs.Content[i].Value, "+")
		var values []string
		switch v := pairs.Content[i+1]; v.Kind {
		case yaml.ScalarNode:
			values = []string{v.Value}
		case yaml.SequenceNode:
			for _, item := range v.Content {
				values = append(values, item.Value)
			}
		default:
			return fmt.Errorf("%s: must be a text or a list", key)
		}
		if adds {
			values = slices.Concat(s[key], values)
		}
		if len(values) > 0 {
			s[key] = values
		}
	}
	return nil
}

// credentials are what a token is made of.
type credentials struct {
	hash, user, password string
	bearer               string // in place of user and password
}

var bootstrap = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)

// parse takes a token apart: a password, a bootstrap token, or either after the authority's hash.
func parse(token string) (c credentials, err error) {
	rest, full := strings.CutPrefix(token, "K10")
	if full {
		hash, after, found := strings.Cut(rest, "::")
		if found {
			c.hash, rest = hash, after
		}
		if _, err := hex.DecodeString(c.hash); err != nil || c.hash != "" && len(c.hash) != 64 {
			return c, errors.New("invalid token CA hash length")
		}
	}
	if bootstrap.MatchString(rest) {
		c.bearer = rest
		return c, nil
	}
	if !full {
		rest = ":" + rest
	}
	var found bool
	if c.user, c.password, found = strings.Cut(rest, ":"); !found || c.password == "" {
		return c, errors.New("invalid token format")
	}
	if c.user == "" {
		c.user = "node"
	}
	return c, nil
}

// registries is a registries.yaml.
type registries struct {
	Mirrors map[string]struct {
		Endpoints []string          `json:"endpoint"          yaml:"endpoint"`
		Rewrites  map[string]string `json:"rewrite,omitempty" yaml:"rewrite"`
	} `json:"mirrors,omitempty" yaml:"mirrors"`
	Configs map[string]struct {
		Auth *struct{ Username, Password, Auth string } `json:"auth,omitempty" yaml:"auth"`
		TLS  *struct {
			CA       string `json:"ca_file,omitempty"              yaml:"ca_file"`
			Insecure bool   `json:"insecure_skip_verify,omitempty" yaml:"insecure_skip_verify"`
		} `json:"tls,omitempty" yaml:"tls"`
	} `json:"configs,omitempty" yaml:"configs"`
}

// readRegistries reads it, where it is.
func readRegistries(file string) (*registries, error) {
	text, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &registries{}
	return r, yaml.Unmarshal(text, r)
}
