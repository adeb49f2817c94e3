package rke2

import (
	"bytes"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// ofRun is what a run's names have in them.
var ofRun = regexp.MustCompile(`-[0-9a-f]{6}-`)

// lines are calls without what chance decides: names, hosts and VMIDs of workers.
func lines(calls []PlannedCall) []string {
	var all []string
	for _, c := range calls {
		parts := strings.Split(c.Path, "/")
		for i, p := range parts {
			if p == "pve2" {
				parts[i] = "pve1"
			}
			if len(p) == 4 && strings.HasPrefix(p, "500") && p > "5001" {
				parts[i] = "500x"
			}
		}
		all = append(all, c.Method+" "+ofRun.ReplaceAllString(strings.Join(parts, "/"), "-RUN-"))
	}
	slices.Sort(all)
	return all
}

// What the plan says is what up does, and planning changes nothing.
func TestPlanIsWhatUpDoes(t *testing.T) {
	for name, prepare := range map[string]func(*world){"template": nothing, "image": ofImage} {
		t.Run(name, func(t *testing.T) { plannedAsDone(t, prepare) })
	}
}

func (w *world) planned() *Plan {
	w.t.Helper()
	b := must.Get(w.bench())(w.t)
	return must.Get(b.Plan(w.t.Context()))(w.t)
}

func plannedAsDone(t *testing.T, prepare func(*world)) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	prepare(w)
	plan := w.planned()
	if n := writes(w); n > 0 || len(w.left()) > 0 {
		t.Fatalf("planning made %d changes", n)
	}
	done := &Plan{Reads: map[string]int{}}
	w.wrap = func(next http.RoundTripper) http.RoundTripper { return &recorder{done, conform(t, next)} }
	w.mustUp()
	if diff := cmp.Diff(lines(done.Calls), lines(plan.Calls)); diff != "" {
		t.Errorf("-done +planned:\n%s", diff)
	}
	var files []string
	for _, f := range plan.Files {
		files = append(files, f.Name)
		if f.Bytes == 0 || f.Content == "" {
			t.Errorf("%s is empty", f.Name)
		}
	}
	if diff := cmp.Diff([]string{intentsFile, kubeconfigFile, secretsFile, stateFile}, files); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	plan.Table(&out)
	for _, want := range []string{
		"POST /pools\n      comment=Test bed bench of Plimsoll\n      poolid=bench\n", fmt.Sprintf("POST /nodes/pve1/qemu/%d/clone\n", w.site.Template.VMID), "newid=5000\n",
		"First-boot disc of control-", "in the guest: /etc/rancher/rke2/config.yaml", "in the guest: /var/lib/rancher/rke2/server/manifests/prometheus.yaml",
		"POST /access/users/root@pam/token/plimsoll-bench\n", "secrets.json",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if len(plan.Discs) != len(whole) {
		t.Errorf("%d discs", len(plan.Discs))
	}
}

func TestPlanOfAnUnsoundSiteTellsWhatIsWrong(t *testing.T) {
	w := newWorld(t)
	t.Cleanup(w.sim.Close)
	w.site.Bridge = "vmbr7"
	b := must.Get(w.bench())(t)
	if _, err := b.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "bridge: ") {
		t.Error(err)
	}
}
