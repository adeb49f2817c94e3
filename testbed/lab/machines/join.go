package machines

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/mail"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// agent is what a machine was given to join a cluster.
type agent struct {
	kind       string // rke2 or k3s
	name       string
	server     string
	token      string
	labels     map[string]string
	taints     []corev1.Taint
	providerID string
	reserved   corev1.ResourceList // of the node, for itself
	serves     *controlPlane       // or nil: what the machine is as a server
}

// errNotToldToJoin is what user-data comes to that says nothing of an agent.
var errNotToldToJoin = errors.New("user-data: there is no configuration of an RKE2 or k3s agent in it")

// readAgent reads user-data as cloud-init and the agent read it.
func readAgent(userData []byte) (*agent, error) {
	configs, err := CloudConfigs(userData)
	if err != nil {
		return nil, fmt.Errorf("user-data: %w", err)
	}
	for _, text := range configs {
		var c struct {
			Hostname string
			Files    []guestFile `yaml:"write_files"`
		}
		if err := yaml.Unmarshal(text, &c); err != nil {
			return nil, fmt.Errorf("user-data: %w", err)
		}
		for _, f := range c.Files {
			at := agentConfig.FindStringSubmatch(f.Path)
			if at == nil {
				continue
			}
			a, err := parseAgent(at[1], c.Hostname, f.Content)
			switch {
			case err != nil:
				return nil, err
			case bytes.Contains(text, []byte(at[1]+"-agent")):
				return a, nil
			case bytes.Contains(text, []byte(at[1]+"-server")):
				a.serves, err = readServer(f.Content, at[1], c.Files)
				return a, err
			}
			return nil, fmt.Errorf("user-data: %s is configured, but nothing starts it", at[1])
		}
	}
	return nil, errNotToldToJoin
}

var agentConfig = regexp.MustCompile(`^/etc/rancher/(rke2|k3s)/config\.yaml$`)

// CloudConfigs are the cloud-config parts of user-data.
func CloudConfigs(userData []byte) ([][]byte, error) {
	if bytes.HasPrefix(userData, []byte("#cloud-config\n")) {
		return [][]byte{userData}, nil
	}
	m, err := mail.ReadMessage(bytes.NewReader(userData))
	if err != nil {
		return nil, nil //nolint:nilerr // it is something else, and that is no fault
	}
	kind, params, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" {
		return nil, err
	}
	var all [][]byte
	for parts := multipart.NewReader(m.Body, params["boundary"]); ; {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		kind, _, err := mime.ParseMediaType(part.Header.Get("Content-Type"))
		if err != nil || kind != "text/cloud-config" {
			continue
		}
		var body io.Reader = part
		if strings.EqualFold(part.Header.Get("Content-Transfer-Encoding"), "base64") {
			body = base64.NewDecoder(base64.StdEncoding, part)
		}
		text, err := io.ReadAll(body)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
}

// parseAgent reads an agent's config.yaml.
func parseAgent(kind, hostname, text string) (*agent, error) {
	var c struct {
		Server, Token string
		Name          string  `yaml:"node-name"`
		Labels        several `yaml:"node-label"`
		Taints        several `yaml:"node-taint"`
		Kubelet       several `yaml:"kubelet-arg"`
	}
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return nil, fmt.Errorf("%s: config.yaml: %w", kind, err)
	}
	a := &agent{kind: kind, name: c.Name, server: c.Server, token: c.Token, labels: map[string]string{}}
	if a.name == "" {
		a.name = hostname
	}
	for _, l := range c.Labels {
		key, value, _ := strings.Cut(l, "=")
		a.labels[key] = value
	}
	for _, t := range c.Taints {
		taint, err := parseTaint(t)
		if err != nil {
			return nil, fmt.Errorf("%s: config.yaml: node-taint: %w", kind, err)
		}
		a.taints = append(a.taints, taint)
	}
	if err := a.readKubelet(c.Kubelet); err != nil {
		return nil, fmt.Errorf("%s: config.yaml: kubelet-arg: %w", kind, err)
	}
	return a, nil
}

// several is a value that may be given once or as a list.
type several []string

// UnmarshalYAML reads it.
func (s *several) UnmarshalYAML(n *yaml.Node) error {
	var list []string
	if n.Kind == yaml.SequenceNode {
		err := n.Decode(&list)
		*s = list
		return err
	}
	var one string
	err := n.Decode(&one)
	*s = several{one}
	return err
}

func parseTaint(text string) (corev1.Taint, error) {
	pair, effect, _ := strings.Cut(text, ":")
	key, value, _ := strings.Cut(pair, "=")
	known := []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}
	if t := (corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}); key != "" && slices.Contains(known, t.Effect) {
		return t, nil
	}
	return corev1.Taint{}, fmt.Errorf("must be KEY=VALUE:EFFECT, with one of %v, was %q", known, text)
}

// evictedBelow is how much memory a kubelet keeps free by eviction by default.
var evictedBelow = resource.MustParse("100Mi")

// readKubelet reads those of the kubelet's arguments that its node shows.
func (a *agent) readKubelet(args []string) error {
	a.reserved = corev1.ResourceList{corev1.ResourceCPU: {}, corev1.ResourceMemory: {}}
	evicted := evictedBelow
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "provider-id":
			a.providerID = value
		case "system-reserved", "kube-reserved":
			if err := a.reserve(value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		case "eviction-hard":
			evicted = resource.Quantity{}
			for _, threshold := range strings.Split(value, ",") {
				if v, is := strings.CutPrefix(threshold, "memory.available<"); is {
					q, err := resource.ParseQuantity(v)
					if err != nil {
						return fmt.Errorf("%s: must be a quantity for memory.available, was %q", name, v)
					}
					evicted = q
				}
			}
		}
	}
	memory := a.reserved[corev1.ResourceMemory]
	memory.Add(evicted)
	a.reserved[corev1.ResourceMemory] = memory
	return nil
}

// reserve adds what a list like cpu=200m,memory=1Gi says.
func (a *agent) reserve(list string) error {
	for _, item := range strings.Split(list, ",") {
		name, value, _ := strings.Cut(item, "=")
		known, is := a.reserved[corev1.ResourceName(name)]
		if !is {
			continue // disk and processes, which nothing here has
		}
		q, err := resource.ParseQuantity(value)
		if err != nil {
			return fmt.Errorf("must be a quantity, was %q", value)
		}
		known.Add(q)
		a.reserved[corev1.ResourceName(name)] = known
	}
	return nil
}
