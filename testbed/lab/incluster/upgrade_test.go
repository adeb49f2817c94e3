//go:build lab

package incluster

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// early is a commit from before machines carried the UID of their cluster.
const early = "668c61d2e178aa15d41020c8c92308848efb37e1"

// An early build is replaced by today's, over its kinds, objects and machines. Pods keep running,
// nothing is ordered twice, and its machines, which name no cluster, carry pods and are kept until
// the configuration adopts them.
func TestAnEarlyBuildIsUpgraded(t *testing.T) {
	checkout := checkoutOf(t, early)
	w := newWorldWithout(t, &machines.Part{Hosts: 2, Speed: 10, Seed: 1})
	w.install(buildOf(t, checkout), checkout, 3)
	w.apply(prices)
	w.pool("workers", "  mode: Active")
	w.deployment("web", 4, "700m")
	before := w.startAsIs("podscaler,nodescaler", quick)
	w.until("all pods run on machines of the early build", func() bool { return w.running() == 4 })
	pods := w.uids()
	before.stop(w)

	w.install(labtest.Program(t), root, 4)
	c := w.begins("podscaler,nodescaler", quick)
	w.deployment("late", 2, "700m")
	w.until("later pods run on a machine of today's", func() bool { return w.running() == 6 })
	if n := len(w.vms()); n != 3 {
		t.Errorf("there are %d machines, want the 2 of the early build and another", n)
	}
	now := w.uids()
	maps.DeleteFunc(now, func(uid types.UID, _ string) bool { return pods[uid] == "" })
	if !maps.Equal(now, pods) {
		t.Errorf("of the pods %v, the upgrade left %v", pods, now)
	}

	w.deployment("late", 0, "700m")
	w.deployment("web", 0, "700m")
	w.until("the others are kept", func() bool {
		return strings.Contains(string(must.Get(os.ReadFile(c.journal()))(w)), "stays: Unmarked: ")
	})
	w.until("the new machine is removed", func() bool { return len(w.vms()) == 2 })
	c.stop(w)
	w.begins("podscaler,nodescaler", "adoptUnmarked: true\n"+quick)
	w.until("all machines are removed", func() bool { return len(w.vms()) == 0 && len(w.nodes()) == 0 })
}

// uids are the names of the pods by their UIDs.
func (w *world) uids() map[types.UID]string {
	w.Helper()
	all := map[types.UID]string{}
	for _, p := range w.pods() {
		all[p.UID] = p.Name
	}
	return all
}

// checkoutOf writes the files of a commit into a folder.
func checkoutOf(t *testing.T, commit string) string {
	t.Helper()
	if err := exec.Command("git", "-C", root, "cat-file", "-e", commit).Run(); err != nil {
		t.Skipf("SKIPPED: the history of this checkout does not reach back to %s: git fetch --unshallow", commit)
	}
	folder := t.TempDir()
	archive := filepath.Join(folder, "archive.tar")
	for _, command := range [][]string{
		{"git", "-C", root, "archive", "--output", archive, commit}, {"tar", "-x", "-f", archive, "-C", folder},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return folder
}

// buildOf builds the program of a checkout.
func buildOf(t *testing.T, checkout string) string {
	t.Helper()
	program := filepath.Join(checkout, "bin", "plimsoll")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", program, "./cmd/plimsoll")
	build.Dir = checkout
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
