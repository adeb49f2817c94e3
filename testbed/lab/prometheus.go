package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Prometheus is the part that scrapes the targets of Lab.Scrape, itself, and the control plane; and
// answers queries at its endpoint "api".
type Prometheus struct {
	// Interval is how often a target is read whose job says nothing else, a second if not given.
	Interval time.Duration
	// RuleFiles are evaluated as often.
	RuleFiles []string
	// Args are added to Prometheus's own.
	Args []string

	port int
}

// PrometheusPart is the name of the part.
const PrometheusPart = "prometheus"

// ScrapeJob is what Prometheus reads for one job.
type ScrapeJob struct {
	Name     string
	Targets  []string // host:port
	Path     string   // /metrics if empty
	Interval time.Duration
	Labels   map[string]string // put on every series
}

// Name is the part's name.
func (p *Prometheus) Name() string { return PrometheusPart }

// Tools are what the part needs.
func (p *Prometheus) Tools() []Tool { return []Tool{ToolPrometheus} }

// Start starts the process and waits until it answers queries.
func (p *Prometheus) Start(ctx context.Context, l *Lab) (*Running, error) {
	program, err := l.Tool(ctx, ToolPrometheus)
	if err != nil {
		return nil, err
	}
	folder, err := l.Folder(PrometheusPart)
	if err != nil {
		return nil, err
	}
	port, err := keptPort(&p.port)
	if err != nil {
		return nil, err
	}
	config, err := p.config(l, port)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(folder, "prometheus.yaml")
	if err := replaceFile(file, config); err != nil {
		return nil, err
	}
	url := "http://" + loopback(port)
	process := &Process{
		Path: program,
		Args: append([]string{
			"--config.file=" + file, "--storage.tsdb.path=" + filepath.Join(folder, "data"),
			"--storage.tsdb.retention.time=7d", "--web.listen-address=" + loopback(port),
			// Not file_sd_configs: they end without a word where no inotify instance is free, and a
			// dozen control planes take all that Linux has for a user.
			"--config.auto-reload", "--config.auto-reload-interval=1s",
		}, p.Args...),
		Answers:   OK(url + "/-/ready"),
		Endpoints: []Endpoint{{"api", url}},
	}
	return process.Start(ctx, l, PrometheusPart)
}

// config is Prometheus's configuration file. Jobs come and go in files beside it.
func (p *Prometheus) config(l *Lab, port int) ([]byte, error) {
	if p.Interval < 0 {
		return nil, fmt.Errorf("interval: must be a time from 0 up, was %s", p.Interval)
	}
	interval := promDuration(cmp.Or(p.Interval, time.Second))
	admin := func(kind string) string { return filepath.Join(l.data, ControlPlanePart, "pki", kind) }
	plane := loopback(l.plane.port)
	return yaml.Marshal(map[string]any{
		"global":              map[string]any{"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
		"rule_files":          p.RuleFiles,
		"scrape_config_files": []string{filepath.Join(l.data, jobsFolder, "*.yaml")},
		"scrape_configs": []any{
			map[string]any{
				"job_name":       PrometheusPart,
				"static_configs": []any{map[string]any{"targets": []string{loopback(port)}}},
			},
			map[string]any{
				"job_name":        ControlPlanePart,
				"scheme":          "https",
				"scrape_interval": "15s", // 2 MB each time
				"scrape_timeout":  "10s",
				"tls_config":      map[string]any{"ca_file": admin("ca.crt"), "cert_file": admin("user-admin.crt"), "key_file": admin("user-admin.key")},
				"static_configs":  []any{map[string]any{"targets": []string{plane}}},
			},
		},
	})
}

// jobsFolder is below the data folder, and holds a file for each job.
const jobsFolder = "prometheus/jobs"

// Scrape has Prometheus, if the lab has one now or later, read what the job says. A later call for
// the same job replaces the earlier one; one without targets ends it. Its file stays then: what a
// job that is gone from the configuration read last would count as current for five minutes more.
func (l *Lab) Scrape(job ScrapeJob) error {
	if err := job.check(); err != nil {
		return err
	}
	folder := filepath.Join(l.data, filepath.FromSlash(jobsFolder))
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	file := filepath.Join(folder, job.Name+".yaml")
	text, err := job.file()
	if err != nil {
		return err
	}
	return replaceFile(file, text)
}

// check refuses what Prometheus would only complain of in its log.
func (j *ScrapeJob) check() error {
	var errs []error
	if !partName.MatchString(j.Name) {
		errs = append(errs, fmt.Errorf("name: must be lower-case letters, digits and hyphens, was %q", j.Name))
	}
	if j.Name == PrometheusPart || j.Name == ControlPlanePart {
		errs = append(errs, fmt.Errorf("name: must not be %q: the lab has a job of that name itself", j.Name))
	}
	for _, t := range j.Targets {
		if _, _, err := net.SplitHostPort(t); err != nil {
			errs = append(errs, fmt.Errorf("targets: must be host:port, was %q", t))
		}
	}
	if j.Path != "" && !strings.HasPrefix(j.Path, "/") {
		errs = append(errs, fmt.Errorf("path: must begin with /, was %q", j.Path))
	}
	if j.Interval != 0 && j.Interval < time.Millisecond {
		errs = append(errs, fmt.Errorf("interval: must be at least 1ms, was %s", j.Interval))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("scrape job: %w", err)
	}
	return nil
}

// file is the job in Prometheus's configuration.
func (j *ScrapeJob) file() ([]byte, error) {
	job := map[string]any{
		"job_name":       j.Name,
		"metrics_path":   cmp.Or(j.Path, "/metrics"),
		"static_configs": []any{map[string]any{"targets": j.Targets, "labels": j.Labels}},
	}
	if j.Interval > 0 {
		job["scrape_interval"], job["scrape_timeout"] = promDuration(j.Interval), promDuration(j.Interval)
	}
	return yaml.Marshal(map[string]any{"scrape_configs": []any{job}})
}

// promDuration writes a duration as Prometheus does, which knows no fractions.
func promDuration(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
