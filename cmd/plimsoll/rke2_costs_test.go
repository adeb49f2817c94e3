package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/costs/fakeopencost"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus/fakeprom"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const costsSite = `
owner: bench
endpoints: ["https://127.0.0.1:1"]
tokenFile: token
insecure: true
pvePool: bench
template: {vmid: 9000}
iso: {storage: discs}
vmids: {first: 5000, last: 5009}
network: {first: 10.0.0.10/24, gateway: 10.0.0.1}
rke2: {version: v1.34.1+rke2r1}
control: {cpu: 2, memory: 4Gi}
load: {cpu: 2, memory: 2Gi}
workers: {shapes: [{name: small, cpu: 2, memory: 4Gi}], start: 1, max: 2}
`

// besideEachOther are a Prometheus with two hours of Plimsoll's costs of two workers, and an
// OpenCost that knows them and the control plane.
func besideEachOther(t *testing.T, from time.Time, opencost *fakeopencost.Server) (files fstest.MapFS, prometheus string) {
	t.Helper()
	always := func(value float64) func(time.Time) (float64, bool) {
		return func(time.Time) (float64, bool) { return value, true }
	}
	prom := httptest.NewServer(fakeprom.Handler([]fakeprom.Series{
		{Text: `plimsoll_cost_known{}`, At: always(1)},
		{Text: `plimsoll_cost_info{currency="EUR"}`, At: always(1)},
		{Text: `plimsoll_node_cost_per_hour{node="workers-1",part="allocated"}`, At: always(4)},
		{Text: `plimsoll_node_cost_per_hour{node="workers-1",part="idle"}`, At: always(2)},
		{Text: `plimsoll_node_cost_per_hour{node="workers-2",part="idle"}`, At: func(at time.Time) (float64, bool) { return 6, !at.Before(from.Add(time.Hour)) }},
	}))
	t.Cleanup(prom.Close)
	opencost.Nodes = []fakeopencost.Node{
		{Name: "control-1", CPUs: 2, GiB: 4},
		{Name: "workers-1", CPUs: 2, GiB: 4},
		// OpenCost pays from the boot on, we from the node.
		{Name: "workers-2", CPUs: 2, GiB: 4, Begun: from.Add(54 * time.Minute)},
	}
	theirs := httptest.NewServer(opencost)
	t.Cleanup(theirs.Close)
	files = fstest.MapFS{
		"site.yaml":     {Data: []byte(costsSite + fmt.Sprintf("addons: {prometheus: {}, openCost: {manifests: [opencost.yaml], url: %q}}\n", theirs.URL))},
		"opencost.yaml": {Data: []byte("kind: List\n")},
	}
	maps.Copy(files, fstest.MapFS{"token": someSite["token"]})
	return files, prom.URL
}

func TestCostsOfOpenCostAreHeldBesideOurs(t *testing.T) {
	from := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC) // it is noon
	args := []string{"testbed", "rke2", "costs", "--config", "site.yaml", "--from", from.Format(time.RFC3339), "--to", from.Add(2 * time.Hour).Format(time.RFC3339)}
	files, prom := besideEachOther(t, from, &fakeopencost.Server{PerCPU: 1, PerGiB: 1})
	stdout, stderr, code := inProcess(t, files, append(args, "--prometheus", prom)...)
	if code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	var rows []string
	for line := range strings.Lines(stdout) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	if diff := cmp.Diff([]string{
		"NODE FOR PLIMSOLL FOR OPENCOST DIFFERENCE",
		"* - €18.00 - €18.60 €0.60 (3%)",
		"control-1 - - 2h €12.00 -",
		"workers-1 2h €12.00 2h €12.00 €0.00 (0%)",
		"workers-2 1h €6.00 1h6m €6.60 €0.60 (10%)",
	}, rows); diff != "" {
		t.Error(diff)
	}
	if stderr != "note: 1 node that only one of the two has a price for: in no total\n" {
		t.Error(stderr)
	}
	stdout, _, _ = inProcess(t, files, append(args, "--prometheus", prom, "-o", "json")...)
	var answer struct {
		Total struct{ Difference *pricing.Micros }
	}
	if err := json.Unmarshal([]byte(stdout), &answer); err != nil || answer.Total.Difference == nil || answer.Total.Difference.String() != "0.6" {
		t.Errorf("%v: %s", err, stdout)
	}
}

// Prices of an hour that OpenCost takes for those of a month are reported.
func TestOpenCostThatDividesByTheHoursOfAMonthIsReported(t *testing.T) {
	from := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC) // it is noon
	files, prom := besideEachOther(t, from, &fakeopencost.Server{PerCPU: 1, PerGiB: 1, Monthly: true})
	_, stderr, code := inProcess(t, files, "testbed", "rke2", "costs", "-c", "site.yaml", "--from", from.Format(time.RFC3339), "--to", from.Add(2*time.Hour).Format(time.RFC3339), "--prometheus", prom)
	if code != cli.ExitDone || !strings.Contains(stderr, "note: OpenCost's costs are 1/706 of ours: it takes the prices of an hour that it was given for those of a month\n") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestCostsThatCannotBeHeldBesideEachOtherAreTold(t *testing.T) {
	from := time.Date(2026, 3, 4, 9, 0, 0, 0, time.UTC) // it is noon
	files, prom := besideEachOther(t, from, &fakeopencost.Server{})
	site := string(files["site.yaml"].Data)
	nobody := httptest.NewServer(fakeprom.Handler(nil))
	t.Cleanup(nobody.Close)
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct {
		site, from, prometheus string
		code                   int
		says                   string
	}{
		{costsSite, "", prom, cli.ExitConfig, "addons.openCost: must be there, for its url says where OpenCost is asked"},
		{strings.Replace(site, "prometheus: {}, ", "", 1), "", "", cli.ExitUsage, "--prometheus: must be given where the site has no addons.prometheus"},
		{site, "2026-03-04T13:00:00Z", prom, cli.ExitUsage, "--from: must be before --to, and both not after now"},
		{site, "", gone.URL, cli.ExitUnreachable, "--prometheus: no answer of Prometheus"},
		{site, "", nobody.URL, cli.ExitFailed, "no series of costs"},
		{strings.Replace(site, "url: \"", "url: \""+gone.URL+"/\" #", 1), "", prom, cli.ExitConfig, "site.yaml"},
	} {
		files["site.yaml"].Data = []byte(c.site)
		if c.from == "" {
			c.from = from.Format(time.RFC3339)
		}
		args := []string{"testbed", "rke2", "costs", "--config", "site.yaml", "--from", c.from}
		if c.prometheus != "" {
			args = append(args, "--prometheus", c.prometheus)
		}
		if _, stderr, code := inProcess(t, files, args...); code != c.code || !strings.Contains(stderr, c.says) {
			t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.says, stderr)
		}
	}
	files["site.yaml"].Data = []byte(costsSite + fmt.Sprintf("addons: {openCost: {manifests: [opencost.yaml], url: %q}}\n", gone.URL))
	if _, stderr, code := inProcess(t, files, "testbed", "rke2", "costs", "--config", "site.yaml", "--from", from.Format(time.RFC3339), "--prometheus", prom); code != cli.ExitUnreachable || !strings.Contains(stderr, "addons.openCost.url: no answer of OpenCost") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

// OpenCost prices memory by the GiB, and has one price for everything.
func TestPricesAreWrittenAsOpenCostReadsThem(t *testing.T) {
	for book, want := range map[string][2]string{
		"": {"1", "1.073741824"},
		"{currency: EUR, pricePerVCPUHour: 0.02, pricePerGBHour: 0.005}": {"0.02", "0.005368709"},
		"{currency: EUR, pricePerVCPUHour: 10, pricePerGiBHour: 0.005}":  {"10", "0.005"},
	} {
		args := []string{"manifests", "opencost"}
		if book != "" {
			args = append(args, "--prices", "prices.yaml")
		}
		stdout, stderr, code := inProcess(t, fstest.MapFS{"prices.yaml": {Data: []byte(book)}}, args...)
		var m corev1.ConfigMap
		if err := yaml.UnmarshalStrict([]byte(stdout), &m); err != nil || code != cli.ExitDone || m.Namespace != "opencost" || m.Name != "custom-pricing-model" {
			t.Fatalf("exit %d, %v: %s %s", code, err, stdout, stderr)
		}
		var prices map[string]string
		must.Do(t, json.Unmarshal([]byte(m.Data["default.json"]), &prices))
		if got := [2]string{prices["CPU"], prices["RAM"]}; got != want || prices["provider"] != "custom" {
			t.Errorf("%s: %v", book, prices)
		}
	}
	for key, more := range map[string]string{"shapes": "{small: {pricePerHour: 3}}", "pricePerMachineHour": "0.1", "pricePerHostHour": "0.1"} {
		files := fstest.MapFS{"prices.yaml": {Data: []byte("{currency: EUR, pricePerVCPUHour: 1, pricePerGBHour: 1, " + key + ": " + more + "}")}}
		want := "prices.yaml: " + key + ": must be absent, for OpenCost has one price of a vCPU and one of memory for all machines and times"
		if _, stderr, code := inProcess(t, files, "manifests", "opencost", "--prices", "prices.yaml"); code != cli.ExitConfig || !strings.Contains(stderr, want) {
			t.Errorf("exit %d: %s", code, stderr)
		}
	}
}
