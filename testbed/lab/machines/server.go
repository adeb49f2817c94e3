package machines

import (
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

// Joining is a part that lets the machines of an emulated Proxmox VE, which another client has made
// and furnished, become nodes of the lab. A machine that is asked to be a server of RKE2 or k3s
// represents the lab's control plane: agents join with its token, and the manifests that it is
// given are applied.
type Joining struct {
	Cluster *pvesim.Cluster
	// Token is what agents join with, where no server of the cluster's brings one.
	Token string
	// Processes says which nodes have their pods run as processes of this machine, by the part of
	// package kubelet; those of the others are KWOK's.
	Processes func(*corev1.Node) bool

	kubelets *kubelets // that know what was on machines' discs, as their disks would
}

// JoiningName is the name of the part.
const JoiningName = "joining"

// Name is the part's name.
func (*Joining) Name() string { return JoiningName }

// Start lets machines join that boot from now on.
func (j *Joining) Start(_ context.Context, l *lab.Lab) (*lab.Running, error) {
	client, err := kubernetes.NewForConfig(l.REST())
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(l.Log(JoiningName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if j.kubelets == nil {
		j.kubelets = newKubelets(client, j.Token, nil)
		j.kubelets.processes, j.kubelets.apply = j.Processes, l.Create
	}
	j.kubelets.log = log.New(out, "", log.LstdFlags)
	j.Cluster.OnBoot(j.kubelets.booted)
	j.Cluster.OnHalt(j.kubelets.halted)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		j.kubelets.run(ctx)
	}()
	return &lab.Running{Stop: func(context.Context) error {
		cancel()
		<-ended
		return out.Close()
	}}, nil
}

// controlPlane is the user-data of a machine that runs a control plane.
type controlPlane struct {
	token     string            // that agents join with
	manifests map[string][]byte // by file
}

// guestFile is a file that cloud-init writes.
type guestFile struct{ Path, Content, Encoding string }

// Unpack is what cloud-init writes to a file of such an encoding and content.
func Unpack(encoding, content string) ([]byte, error) {
	switch encoding {
	case "":
		return []byte(content), nil
	case "gz+b64":
		r, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, strings.NewReader(content)))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}
	return nil, fmt.Errorf("encoding: must be gz+b64 or none, was %q", encoding)
}

// readServer reads a server's config.yaml, and what it finds among its manifests.
func readServer(config, kind string, files []guestFile) (*controlPlane, error) {
	var c struct {
		Token      string
		AgentToken string `yaml:"agent-token"`
	}
	if err := yaml.Unmarshal([]byte(config), &c); err != nil {
		return nil, fmt.Errorf("%s: config.yaml: %w", kind, err)
	}
	s := &controlPlane{token: c.AgentToken, manifests: map[string][]byte{}}
	if s.token == "" {
		s.token = c.Token
	}
	if s.token == "" {
		return nil, errors.New(kind + ": config.yaml: token: must be given, was not")
	}
	for _, f := range files {
		if path.Dir(f.Path) != "/var/lib/rancher/"+kind+"/server/manifests" {
			continue
		}
		text, err := Unpack(f.Encoding, f.Content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Path, err)
		}
		s.manifests[f.Path] = text
	}
	return s, nil
}

// deploy applies the manifests, in the order of their names.
func (s *controlPlane) deploy(ctx context.Context, apply func(context.Context, []byte) error) error {
	for _, name := range slices.Sorted(maps.Keys(s.manifests)) {
		if err := apply(ctx, s.manifests[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
