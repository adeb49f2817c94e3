package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A policy is added by adding its file and its scenario: after make gen it can be run, and named in
// a manifest, and it is in the lists. It is done here with a whole copy of the module.
func TestAPolicyIsAddedByItsFileAndItsScenario(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a copy of the module")
	}
	root := copyOfModule(t)
	put(t, filepath.Join(root, policyFolder, "queue.go"), "testdata/newcomer/queue.go.txt")
	put(t, filepath.Join(root, policyFolder, "testdata/scenarios/queue.txt"), "testdata/newcomer/scenario.txt")
	goIn(t, root, "run", "./cmd/plimsoll/internal/policygen", ".")
	goIn(t, filepath.Join(root, apiFolder), "run", "sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0",
		"object", "crd:crdVersions=v1", "paths=.", "output:crd:dir=../../deploy/crds")

	// Its columns are as wide as they must be.
	listed := strings.Join(strings.Fields(goIn(t, root, "run", "./cmd/plimsoll", "testbed", "list")), " ")
	must(t, listed, " queue gives each replica")
	must(t, read(t, root, tableFile), "| `Queue` | Gives each replica its share of the requests that wait. |")
	crd := read(t, root, "deploy/crds/plimsoll.dev_workloadautoscalers.yaml")
	must(t, crd, "- Queue\n")
	must(t, crd, "How many requests one replica may have.")
	must(t, crd, "may be there only with policy Queue")
	// Its scenario and the laws that hold for all policies. The manifests with the CRDs are
	// rendered by Helm's packages, which take minutes to compile.
	goIn(t, root, "test", "-skip", "^TestCRDsHaveTheKeysOfTheTypes$", "./podscaler/policy", "./cmd/plimsoll/internal/resources")
}

func copyOfModule(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	const from = "../../../.."
	tracked := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.go", "go.mod", "go.sum", "api", "deploy", "docs", "podscaler", "testbed", "cmd", "dashboard", "pricing", "nodescaler", "proxmox", "grpc")
	tracked.Dir = from
	names, err := tracked.Output()
	if err != nil {
		t.Fatal("git ls-files:", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(names), "\x00"), "\x00") {
		put(t, filepath.Join(root, name), filepath.Join(from, name))
	}
	return root
}

func put(t *testing.T, file, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if os.IsNotExist(err) {
		return // removed, and not yet committed
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o755)
	}
	if err == nil {
		err = os.WriteFile(file, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func goIn(t *testing.T, folder string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func must(t *testing.T, text, have string) {
	t.Helper()
	if !strings.Contains(text, have) {
		t.Errorf("must have %q, was:\n%s", have, text)
	}
}
