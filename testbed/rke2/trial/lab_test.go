//go:build lab

package trial_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/rke2"
	"github.com/plimsoll/plimsoll/testbed/rke2/inlab"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// siteFile is a site whose workers are the machines of the experiment slo-cost.
const siteFile = `
owner: bench
endpoints: [%s]
tokenFile: token
fingerprints: [%s]
pvePool: bench
template: {vmid: 9000}
iso: {storage: nfs}
vmids: {first: 5000, last: 5019}
network: {first: 10.0.0.10/24, gateway: 10.0.0.1, nameservers: [10.0.0.2]}
rke2: {version: v1.34.1+rke2r1}
control: {cpu: 4, memory: 8Gi, disk: 40Gi}
load: {cpu: 2, memory: 4Gi}
workers:
  shapes: [{name: small, cpu: 2, memory: 7629Mi, disk: 20Gi}]
  start: 2
  max: 16
user: ops
packages: [qemu-guest-agent]
run:
  prometheus: {url: %[3]q, inCluster: %[3]q}
  signals: {preset: Istio}
`

// service leads what is asked by the names of Services to the traffic plane, as k6's proxy.
type service struct{ plane *url.URL }

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, rest, _ := strings.Cut(r.Host, ".")
	namespace, _, is := strings.Cut(rest, ".svc")
	if !is {
		http.Error(w, "there is no Service "+r.Host, http.StatusBadGateway)
		return
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(s.plane)
		p.Out.URL.Path = "/apps/" + namespace + "/" + name + "/"
	}}
	proxy.ServeHTTP(w, r)
}

// verb runs the real program.
func verb(t *testing.T, program string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, append([]string{"testbed"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	t.Logf("%s\n%s%s", strings.Join(args, " "), &out, &errs)
	if err != nil {
		t.Fatal(err)
	}
	return errs.String()
}

// killed runs the real program until users have come, and kills it.
func killed(t *testing.T, program string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"testbed"}, args...)...)
	errs := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(errs)
	for lines.Scan() && !strings.Contains(lines.Text(), "let the users in") {
		t.Log(lines.Text())
	}
	time.Sleep(10 * time.Second)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal("it has ended by itself:", err)
	}
	_ = cmd.Wait() // it was killed
}

// rig is a test bed that is up, of two workers, with the files that the program reads of it.
type rig struct {
	*inlab.Rig
	site, state string
}

// rigged is how a rig differs.
type rigged struct {
	site     string                     // a format as siteFile is
	programs map[string]kubelet.Program // besides
	before   func(kubeconfig string)    // the test bed is built
}

func newRig(t *testing.T, program string, how rigged) *rig {
	k6 := must.Get(lab.Toolbox{}.Path(t.Context(), lab.ToolK6))(t)
	services := &service{}
	proxy := httptest.NewServer(services)
	t.Cleanup(proxy.Close)
	r := &rig{}
	var site string
	how.programs["plimsoll"] = kubelet.Plimsoll(program)
	how.programs["k6"] = kubelet.Program{Path: k6, Env: []string{"HTTP_PROXY=" + proxy.URL}}
	r.Rig = inlab.New(t, inlab.Config{
		// The age of machines is by the emulator's clock, and what they cost by Plimsoll's.
		Speed:    1,
		Programs: how.programs,
		Parts:    []lab.Part{&lab.Prometheus{}, &plane.Part{Seed: 1, Every: 5 * time.Second}},
		Site: func(s *rke2.Site) {
			if r.Rig == nil {
				return
			}
			quoted := func(all []string) string { return `"` + strings.Join(all, `", "`) + `"` }
			site = fmt.Sprintf(how.site, quoted(s.Endpoints), quoted(s.Fingerprints), r.Lab.Endpoint(lab.PrometheusPart, "api"))
			var mine rke2.Site
			must.Do(t, strict.Unmarshal([]byte(site), &mine))
			*s = mine
		},
	})
	services.plane = must.Get(url.Parse(r.Lab.Endpoint(plane.PartName, "apps")))(t)
	if how.before != nil {
		how.before(r.Lab.Kubeconfig())
	}
	must.Do(t, r.Bench().Up(t.Context()))
	kubeconfig := must.Get(os.ReadFile(r.Lab.Kubeconfig()))(t)
	folder := t.TempDir()
	r.site, r.state = filepath.Join(folder, "site.yaml"), filepath.Join(folder, "site.rke2")
	must.Do(t, os.Mkdir(r.state, 0o700))
	for name, text := range map[string]string{r.site: site, filepath.Join(folder, "token"): "root@pam!nobody=00000000-0000-0000-0000-000000000000\n", filepath.Join(r.state, "kubeconfig"): string(kubeconfig)} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		for _, ns := range []string{"plimsoll", "plimsoll-testbed", "kube-system"} {
			list, err := r.Client.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				continue
			}
			for _, p := range list.Items {
				log, err := r.Client.CoreV1().Pods(ns).GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
				t.Logf("%s: %+v\n%.6000s %v", p.Name, p.Status, log, err)
			}
		}
	})
	return r
}

// A test bed is built, an experiment is run on it by the real program, and the test bed is taken
// down. The program is killed while the users are there, and run again. Plimsoll and k6 are pods
// there and real, the application's pods are played by the traffic plane. What is so on any machine
// is asserted, and no speed.
func TestAnExperimentRunsOnATestBed(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	const users, minutes = 10, 1
	program := labtest.Program(t)
	r := newRig(t, program, rigged{site: siteFile, programs: map[string]kubelet.Program{}})
	out := filepath.Join(t.ArtifactDir(), "out")
	args := []string{"rke2", "run", "slo-cost", "--config", r.site, "--policies", "slocost-b", "--users", "10", "--trials", "1", "--for", "1m", "--out", out}
	killed(t, program, args...)
	began := time.Now()
	verb(t, program, args...)
	t.Logf("after %.0f s", time.Since(began).Seconds())

	res := labtest.Results(t, out)
	if res.World != "rke2" || len(res.Runs) != 1 || res.Planned != 1 || res.DurationSeconds != 60*minutes {
		t.Fatalf("%+v with %d runs", res.Header, len(res.Runs))
	}
	run := &res.Runs[0]
	t.Logf("%+v", run)
	between := func(what string, least, v, most float64) {
		t.Helper()
		if !(least <= v && v <= most) {
			t.Errorf("%s is %g, want %g to %g", what, v, least, most)
		}
	}
	between("requests", users*60*minutes/20, float64(run.Requests), users*60*minutes)
	between("failed", 0, float64(run.Failed), float64(run.Requests)/100)
	between("goodFraction", 0.01, float64(run.GoodFraction), 1)
	between("p50Ms", 80, float64(run.P50Ms), float64(run.P90Ms))
	between("p99Ms", float64(run.P90Ms), float64(run.P99Ms), 60_000)
	// It begins with one machine, though two are there before, and one pod; the first machine does
	// not do.
	between("podMinutes", minutes, float64(run.PodMinutes), 48*minutes)
	between("vmHours", minutes/60., float64(run.VMHours), 16*minutes/60.)
	between("costUnits", 9.99*minutes/60., float64(run.CostUnits), 160*minutes/60.)
	between("orders", 1, float64(run.Orders), 15)
	between("decisions", 1, float64(run.Decisions), 2*minutes)
	for _, name := range []string{
		"report.html", "experiment.yaml", "p90.svg", "cost.svg",
		"rke2/experiment.json", "rke2/slocost-b-10-1/journal.ndjson", "rke2/slocost-b-10-1/summary.json", "rke2/slocost-b-10-1/trial.json", "rke2/slocost-b-10-1/prometheus.json",
	} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Error(name, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, "rke2/slocost-b-10-1/prometheus.json"))
	if err != nil || bytes.Contains(text, []byte(`"error"`)) || !bytes.Contains(text, []byte(`"values"`)) {
		t.Errorf("of Prometheus there is %s, %v", text, err)
	}

	// It was made, and is not made again.
	began = time.Now()
	if said := verb(t, program, args...); !strings.Contains(said, "was made before") || time.Since(began) > 50*time.Second {
		t.Error("it is made again")
	}
	must.Do(t, r.Bench().Down(t.Context()))
	if left := r.Left(); len(left) > 0 {
		t.Errorf("this is left: %q", left)
	}
}
