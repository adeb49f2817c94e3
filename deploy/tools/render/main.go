// Command render writes what is made from the charts: the copies of the kinds in their chart, the
// manifests that the binary prints, and the one for RKE2's and k3s' folder of manifests. It runs in
// the folder deploy/tools.
package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/plimsoll/plimsoll/deploy/tools/internal/helm"
)

// deploy is the folder that everything is in.
const deploy = ".."

func main() {
	for _, write := range []func() error{copyKinds, writeManifests, writeRKE2} {
		if err := write(); err != nil {
			fmt.Fprintln(os.Stderr, "render:", err)
			os.Exit(1)
		}
	}
}

// copyKinds puts the generated kinds into their chart, which can hold nothing that lies outside of
// it.
func copyKinds() error {
	kinds, err := filepath.Glob(filepath.Join(deploy, "crds", "*.yaml"))
	if err != nil || len(kinds) == 0 {
		return fmt.Errorf("no kinds in %s/crds: %w", deploy, err)
	}
	into := filepath.Join(deploy, "charts", "plimsoll-crds", "files")
	if err := os.RemoveAll(into); err != nil { // kinds that are gone must not stay
		return err
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	for _, kind := range kinds {
		text, err := os.ReadFile(kind)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, filepath.Base(kind)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// namespace comes first in the manifests: Helm makes none when it only renders.
const namespace = `apiVersion: v1
kind: Namespace
metadata:
  name: plimsoll
  labels:
    pod-security.kubernetes.io/enforce: restricted
`

// writeManifests renders both charts for those who have no Helm.
func writeManifests() error {
	into := filepath.Join(deploy, "manifests")
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	kinds, err := template("plimsoll-crds")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(into, "crds.yaml"), kinds, 0o644); err != nil {
		return err
	}
	for name, values := range map[string]string{
		"recommend": "mode=Recommend",
		"active":    "mode=Active",
		"provider":  "mode=Active,components={podscaler,provider},provider.tlsSecret=plimsoll-provider",
	} {
		text, err := template("plimsoll", "--no-hooks", "--set", values+",proxmox.existingSecret=plimsoll-proxmox,config.owner=OWNER,config.endpoints={https://PROXMOX:8006}")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(into, name+".yaml"), append([]byte(namespace), text...), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// ofHelm are lines about a Helm release, which is not there. Blank lines stay: some are in texts.
var ofHelm = regexp.MustCompile(`(?m)^(# Source: .*|    (    )?(helm\.sh/chart: .*|app\.kubernetes\.io/managed-by: Helm))\n`)

// template renders a chart as kubectl takes it.
func template(chart string, args ...string) ([]byte, error) {
	text, err := helm.Run(append([]string{"template", "plimsoll", filepath.Join(deploy, "charts", chart), "--namespace", "plimsoll"}, args...)...)
	return ofHelm.ReplaceAll(text, nil), err
}

// rke2 is dropped into the folder of manifests of an RKE2 or k3s server, whose Helm controller
// installs what it holds. The charts are in it, so that no registry of charts is asked.
const rke2 = `# Installs Plimsoll on RKE2 or k3s. Edit valuesContent, make the secret that it names, and put this file into
# /var/lib/rancher/rke2/server/manifests/ (k3s: /var/lib/rancher/k3s/server/manifests/) of one server. The charts
# are in it; only the image is fetched, or found where it was put into agent/images/.
#
#   kubectl create namespace plimsoll
#   kubectl -n plimsoll create secret generic plimsoll-proxmox --from-file=token --from-file=join-token
#
# Generated from deploy/charts by 'make gen'.
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata:
  name: plimsoll-crds
  namespace: kube-system
spec:
  targetNamespace: plimsoll
  createNamespace: true
  chartContent: %s
---
apiVersion: helm.cattle.io/v1
kind: HelmChart
metadata:
  name: plimsoll
  namespace: kube-system
spec:
  targetNamespace: plimsoll
  createNamespace: true
  valuesContent: |
%s
  chartContent: %s
`

func writeRKE2() error {
	values, err := os.ReadFile(filepath.Join(deploy, "rke2", "values.yaml"))
	if err != nil {
		return err
	}
	kinds, err := packed("plimsoll-crds")
	if err != nil {
		return err
	}
	chart, err := packed("plimsoll")
	if err != nil {
		return err
	}
	text := fmt.Sprintf(rke2, kinds, indent(strings.TrimSpace(string(values)), "    "), chart)
	return os.WriteFile(filepath.Join(deploy, "rke2", "plimsoll-rke2.yaml"), []byte(text), 0o644)
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(text, "\n", "\n"+by)
}

// packed is a chart as an archive, in base64.
func packed(chart string) (string, error) {
	archive, err := helm.Pack(filepath.Join(deploy, "charts", chart))
	return base64.StdEncoding.EncodeToString(archive), err
}
