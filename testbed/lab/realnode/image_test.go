//go:build guest

package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/guests"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What the template has of its own. Sandboxes' image has the name of each that containerd asks for.
const (
	serviceImage = "lab.plimsoll.dev/service:1"
	pauseImage   = "registry.k8s.io/pause:"
)

var pauses = []string{"3.8", "3.9", "3.10", "3.10.1"}

// kubeletUnit is as Kubernetes' own packages have it, with the arguments that kubeadm writes.
const kubeletUnit = `[Unit]
Description=kubelet
Wants=network-online.target
After=network-online.target containerd.service
[Service]
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=/usr/bin/kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml $KUBELET_KUBEADM_ARGS
Restart=always
StartLimitInterval=0
RestartSec=10
[Install]
WantedBy=multi-user.target
`

// importUnit loads images at the first boot, for there is no registry.
const importUnit = `[Unit]
After=containerd.service
Requires=containerd.service
Before=cloud-final.service kubelet.service
ConditionPathExists=!/var/lib/plimsoll-images
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'for f in /usr/share/plimsoll/*.tar; do ctr -n k8s.io images import "$f" || exit 1; done; touch /var/lib/plimsoll-images'
[Install]
WantedBy=multi-user.target
`

const bridge = `{"cniVersion": "1.0.0", "name": "lab", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.244.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}
`

// template builds the image, unless it is there.
func template(t *testing.T, program, kubelet, kubeadm string) string {
	t.Helper()
	service := filepath.Join(t.TempDir(), "service")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", service, "./service")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	run(t, build)
	binary := must.Get(os.ReadFile(service))(t)
	return guests.Template(t, program, "kubeadm", must.Get(lab.CacheFolder(""))(t), &guests.Package{
		Name: "plimsoll-real-node", Depends: "containerd, containernetworking-plugins",
		Files: map[string][]byte{
			"usr/bin/kubelet":                                must.Get(os.ReadFile(kubelet))(t),
			"usr/bin/kubeadm":                                must.Get(os.ReadFile(kubeadm))(t),
			"usr/lib/systemd/system/kubelet.service":         []byte(kubeletUnit),
			"usr/lib/systemd/system/plimsoll-images.service": []byte(importUnit),
			"etc/cni/net.d/10-bridge.conflist":               []byte(bridge),
			"usr/share/plimsoll/pause.tar":                   container(t, binary, []string{"/service", "pause"}, pauseNames()...),
			"usr/share/plimsoll/service.tar":                 container(t, binary, []string{"/service"}, serviceImage),
		},
		Links: map[string]string{
			"etc/systemd/system/multi-user.target.wants/plimsoll-images.service": "/usr/lib/systemd/system/plimsoll-images.service",
			"opt/cni/bin": "/usr/lib/cni",
		},
	})
}

func pauseNames() []string {
	var all []string
	for _, v := range pauses {
		all = append(all, pauseImage+v)
	}
	return all
}

func run(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
}

// container is an image of one program, as docker save writes it and ctr images import reads it.
func container(t *testing.T, program []byte, entry []string, names ...string) []byte {
	t.Helper()
	layer := archive(t, map[string][]byte{"service": program})
	config := must.Get(json.Marshal(map[string]any{
		"architecture": "amd64", "os": "linux", "config": map[string]any{"Entrypoint": entry},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	}))(t)
	manifest := must.Get(json.Marshal([]any{map[string]any{"Config": "config.json", "RepoTags": names, "Layers": []string{"layer.tar"}}}))(t)
	return archive(t, map[string][]byte{"manifest.json": manifest, "config.json": config, "layer.tar": layer})
}

// archive is a tar of files, the same for the same files.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		must.Get(io.Copy(w, bytes.NewReader(files[name])))(t)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
