package kubelet

import (
	"fmt"
	"net"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// Program is a program of this machine in place of an image, or of a command in one.
type Program struct {
	Path string
	Args []string // before the container's own
	Env  []string // NAME=VALUE, beside the container's; the container's own goes first
	// File, if given, changes what a program finds in a file that is mounted, by the path it has
	// there.
	File func(p Pod, path string, data []byte) ([]byte, error)
}

// Pod is what a process may know of its pod.
type Pod struct {
	Namespace, Name string
	IP              string // on which no other client listens
	Kubeconfig      string // of its service account, or "" if that is not mounted
}

// nameOf is the name that an image or a command has among the programs.
func nameOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}

// Plimsoll is the program of that path, which reads the configuration that is mounted as
// config.yaml. As it would in a cluster, it reaches the API server as its service account, knows
// its namespace, and listens at the pod's address where it would on all.
func Plimsoll(path string, env ...string) Program {
	return Program{Path: path, Env: env, File: func(p Pod, file string, data []byte) ([]byte, error) {
		if filepath.Base(file) != "config.yaml" || p.Kubeconfig == "" {
			return data, nil
		}
		var c map[string]any
		if err := yaml.Unmarshal(data, &c); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		c["kubeconfig"], c["namespace"] = p.Kubeconfig, p.Namespace
		listenAt(c, "metrics", p.IP)
		if provider, is := c["provider"].(map[string]any); is {
			listenAt(provider, "listen", p.IP)
			listenAt(provider, "expander", p.IP)
		}
		return yaml.Marshal(c)
	}}
}

// listenAt gives an address that has only a port the host.
func listenAt(c map[string]any, key, host string) {
	text, is := c[key].(string)
	if at, port, err := net.SplitHostPort(text); is && err == nil && (at == "" || net.ParseIP(at).IsUnspecified()) {
		c[key] = net.JoinHostPort(host, port)
	}
}
