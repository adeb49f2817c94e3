package lab

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestKWOKIsToldTheTimes(t *testing.T) {
	k := &KWOK{PodStart: timing.Range{Min: 1500 * time.Millisecond, Max: 4 * time.Second}, PodStop: timing.Range{Max: time.Second}}
	text := must.Get(k.stages())(t)
	got := map[string][2]int64{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var stage struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				Delay struct{ DurationMilliseconds, JitterDurationMilliseconds int64 }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &stage); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if stage.Kind != "Stage" {
			continue
		}
		got[stage.Metadata.Name] = [2]int64{stage.Spec.Delay.DurationMilliseconds, stage.Spec.Delay.JitterDurationMilliseconds}
	}
	want := map[string][2]int64{
		"node-ready": {}, "node-heartbeat": {8000, 12000}, "pod-admitted": {},
		"pod-ready": {1500, 4000}, "pod-complete": {1000, 2000}, "pod-gone": {0, 1000},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

func TestKWOKRefusesTimesThatAreNone(t *testing.T) {
	k := &KWOK{PodStart: timing.Range{Min: 2 * time.Second, Max: time.Second}, PodStop: timing.Range{Min: -1}}
	_, err := k.stages()
	want := "podStart: must be a range of times from 0 up, was 2s to 1s\npodStop: must be a range of times from 0 up, was -1ns to 0s"
	if fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPrometheusFindsItsTargetsInTheLab(t *testing.T) {
	l := &Lab{data: "/lab", plane: &controlPlane{port: 21000}}
	text := must.Get((&Prometheus{Interval: 2 * time.Second, RuleFiles: []string{"/rules.yaml"}}).config(l, 22000))(t)
	want := `global:
  evaluation_interval: 2000ms
  scrape_interval: 2000ms
  scrape_timeout: 2000ms
rule_files:
- /rules.yaml
scrape_config_files:
- /lab/prometheus/jobs/*.yaml
scrape_configs:
- job_name: prometheus
  static_configs:
  - targets:
    - 127.0.0.1:22000
- job_name: controlplane
  scheme: https
  scrape_interval: 15s
  scrape_timeout: 10s
  static_configs:
  - targets:
    - 127.0.0.1:21000
  tls_config:
    ca_file: /lab/controlplane/pki/ca.crt
    cert_file: /lab/controlplane/pki/user-admin.crt
    key_file: /lab/controlplane/pki/user-admin.key
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("prometheus.yaml (-want +got):\n%s", diff)
	}
}

func TestScrapeJobBecomesAPartOfTheConfiguration(t *testing.T) {
	text, err := (&ScrapeJob{Name: "ships", Targets: []string{"127.0.0.1:1"}, Interval: 250 * time.Millisecond, Labels: map[string]string{"flag": "blue"}}).file()
	if err != nil {
		t.Fatal(err)
	}
	want := `scrape_configs:
- job_name: ships
  metrics_path: /metrics
  scrape_interval: 250ms
  scrape_timeout: 250ms
  static_configs:
  - labels:
      flag: blue
    targets:
    - 127.0.0.1:1
`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
}

func TestScrapeJobIsRefusedByKeyRuleAndValue(t *testing.T) {
	l := &Lab{data: t.TempDir()}
	err := l.Scrape(ScrapeJob{Name: "../x", Targets: []string{"nowhere"}, Path: "metrics", Interval: time.Microsecond})
	want := `scrape job: name: must be lower-case letters, digits and hyphens, was "../x"
targets: must be host:port, was "nowhere"
path: must begin with /, was "metrics"
interval: must be at least 1ms, was 1µs`
	if fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	err = l.Scrape(ScrapeJob{Name: PrometheusPart, Targets: []string{"127.0.0.1:1"}})
	if want := `scrape job: name: must not be "prometheus": the lab has a job of that name itself`; fmt.Sprint(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestPortIsFreeAndKept(t *testing.T) {
	var port int
	first, err := keptPort(&port)
	if err != nil {
		t.Fatal(err)
	}
	if first < firstPort || first > lastPort {
		t.Errorf("port %d is not between %d and %d", first, firstPort, lastPort)
	}
	l, err := net.Listen("tcp", loopback(first))
	if err != nil {
		t.Fatalf("it is taken: %v", err)
	}
	defer func() { _ = l.Close() }()
	if again, err := keptPort(&port); err != nil || again != first {
		t.Errorf("asked again: %d, %v, want %d", again, err, first)
	}
}

// A server listens long after its port was found.
func TestPortsAreFoundOnce(t *testing.T) {
	found := map[int]bool{}
	for range 3 * blockSize {
		port, err := FreePort()
		if err != nil || found[port] {
			t.Fatalf("port %d, %v, found before: %t", port, err, found[port])
		}
		found[port] = true
	}
}
