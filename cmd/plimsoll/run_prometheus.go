package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

// measuring is the part of the configuration file that says where workloads are measured.
type measuring struct {
	// Prometheus is asked for the WorkloadAutoscalers that name none of their own.
	Prometheus *sharedPrometheus `json:"prometheus,omitempty"`
	// Scrape is what pods want to see whose metrics are read over https.
	Scrape *scrapeAccess `json:"scrape,omitempty"`
	// Signals is what WorkloadAutoscalers may have asked; without it no server that they name.
	Signals *signals.Access `json:"signals,omitempty"`
}

// sharedPrometheus is a server of the Prometheus query API.
type sharedPrometheus struct {
	URL string `json:"url" strict:"required"`
	// Headers are sent with every query, such as the tenant of a shared store.
	Headers map[string]string `json:"headers,omitempty"`
	access
}

// scrapeAccess is how pods are asked for metrics that they show over https.
type scrapeAccess struct {
	// ServerName is the name in pods' certificates; without it they must be for their addresses.
	ServerName string `json:"serverName,omitempty"`
	access
}

// access names files with what a server wants to see.
type access struct {
	// CAFile holds the authorities that may vouch for the server; without it the system's.
	CAFile string `json:"caFile,omitempty"`
	// TokenFile holds a bearer token, on one line.
	TokenFile string `json:"tokenFile,omitempty"`
	// BasicAuthFile holds username:password, on one line.
	BasicAuthFile string `json:"basicAuthFile,omitempty"`
}

// server is the Prometheus for all, or nil without one.
func (m *measuring) server() *signals.Prometheus {
	if m.Prometheus == nil {
		return nil
	}
	return &signals.Prometheus{URL: m.Prometheus.URL, Headers: m.Prometheus.Headers}
}

// checkMeasuring adds what is wrong with the settings, and with the files that they name.
func (s *siteFile) checkMeasuring() []error {
	var faults []error
	under := func(prefix string, err error) {
		for _, err := range cli.Each(err) {
			key, rule, _ := strings.Cut(err.Error(), ": ")
			faults = append(faults, pricing.NewFault(prefix+key, rule))
		}
	}
	if s.Signals != nil {
		under("signals.", s.Signals.Validate())
	}
	if p := s.Prometheus; p != nil && p.URL != "" {
		under("prometheus.", s.server().Validate())
		faults = append(faults, s.checkAccess("prometheus.", &p.access)...)
	}
	if s.Scrape != nil {
		name := s.Scrape.ServerName
		if name != "" && !cli.IsHost(name) {
			faults = append(faults, pricing.NewFault("scrape.serverName", fmt.Sprintf("must be a DNS name in lower case or an address, was %q", name)))
		}
		faults = append(faults, s.checkAccess("scrape.", &s.Scrape.access)...)
	}
	return faults
}

func (s *siteFile) checkAccess(under string, a *access) []error {
	if a.TokenFile != "" && a.BasicAuthFile != "" {
		return []error{pricing.NewFault(under+"basicAuthFile", fmt.Sprintf("must be omitted beside tokenFile, was %q", a.BasicAuthFile))}
	}
	if s.offline || s.parts == nil {
		return nil
	}
	_, err := s.credentials(under, a)
	return cli.Each(err)
}

// credentials reads what the files hold now, for they may change. Errors name key and rule, and
// nothing of what is secret in them.
func (s *siteFile) credentials(under string, a *access) (signals.Credentials, error) {
	var c signals.Credentials
	var faults []error
	read := func(key, name string, take func(text []byte) error) {
		if name == "" {
			return
		}
		name = s.beside(name)
		text, err := s.env.ReadFile(name)
		if err != nil {
			faults = append(faults, pricing.NewFault(under+key, "must be a file that can be read: "+err.Error()))
		} else if err := take(text); err != nil {
			faults = append(faults, pricing.NewFault(under+key, fmt.Sprintf("must hold %s, but %s %s", accessFiles[key], name, err)))
		}
	}
	read("caFile", a.CAFile, func(text []byte) error {
		c.CA = text
		return connect.CheckCertificates(text)
	})
	read("tokenFile", a.TokenFile, func(text []byte) (err error) {
		c.Token, err = oneLine(text)
		return err
	})
	read("basicAuthFile", a.BasicAuthFile, func(text []byte) error {
		line, err := oneLine(text)
		user, password, both := strings.Cut(line, ":")
		if err == nil && (!both || user == "") {
			err = errors.New("has no user before a colon")
		}
		c.Username, c.Password = user, password
		return err
	})
	if len(faults) > 0 {
		return signals.Credentials{}, errors.Join(faults...)
	}
	return c, nil
}

// accessFiles is what the files hold, by key.
var accessFiles = map[string]string{
	"caFile": "certificates in PEM", "tokenFile": "a token on one line", "basicAuthFile": "username:password on one line",
}

// oneLine is a file's only line.
func oneLine(text []byte) (string, error) {
	line := connect.Trimmed(text)
	switch lines := strings.Count(line, "\n") + 1; {
	case line == "":
		return "", errors.New("is empty")
	case lines > 1:
		return "", fmt.Errorf("has %d lines", lines)
	case strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return "", errors.New("has a control character in it")
	}
	return line, nil
}

// signalOptions are how workloads are measured: by the Prometheus of the file or by their own,
// whose credentials are in Secrets of their namespaces. No object may name the API server, which is
// the host of a client's configuration.
func (s *siteFile) signalOptions(secrets typedv1.SecretsGetter, apiServer string) signals.Options {
	o := signals.Options{
		Prometheus: s.server(),
		Credentials: func(ctx context.Context, namespace string, p signals.Prometheus) (signals.Credentials, error) {
			if namespace == "" {
				return s.credentials("prometheus.", &s.Prometheus.access)
			}
			return prometheusCredentials(ctx, secrets, namespace, p.SecretName)
		},
	}
	if s.Signals != nil {
		o.Access = *s.Signals
	}
	if at, err := url.Parse(apiServer); err == nil && at.Host != "" {
		port := map[string]string{"https": "443", "http": "80"}[at.Scheme]
		o.Access.APIServers = []string{net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port))}
	}
	if s.Scrape != nil {
		o.ScrapeCredentials = func(context.Context) (signals.Credentials, error) {
			c, err := s.credentials("scrape.", &s.Scrape.access)
			c.ServerName = s.Scrape.ServerName
			return c, err
		}
	}
	return o
}

// sitePrometheus is the Prometheus that a configuration file names, and how it is asked.
func sitePrometheus(env *cli.Env, file string) (*prometheus.Server, error) {
	site, err := readFor(env, file, &siteFile{planning: true, offline: true})
	if err != nil {
		return nil, err
	}
	if site.Prometheus == nil {
		return nil, cli.Misconfigured(file, pricing.NewFault("prometheus", "must be there for --query, or give --prometheus URL"))
	}
	creds, err := site.credentials("prometheus.", &site.Prometheus.access)
	if faults := append(site.checkMeasuring(), err); errors.Join(faults...) != nil {
		return nil, cli.Misconfigured(file, errors.Join(faults...))
	}
	to, err := url.Parse(site.Prometheus.URL)
	if err != nil {
		return nil, cli.Misconfigured(file, pricing.NewFault("prometheus.url", err.Error()))
	}
	return &prometheus.Server{URL: to, Client: clientFor(creds), Authorize: authorize(creds, site.Prometheus.Headers)}, nil
}

// clientFor trusts the authority of the credentials, and follows no redirect to another server.
func clientFor(c signals.Credentials) *http.Client {
	client := &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if len(c.CA) > 0 {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: x509.NewCertPool()}
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(c.CA) // they have been looked at
		client.Transport = t
	}
	return client
}

func authorize(c signals.Credentials, headers map[string]string) func(*http.Request) {
	return func(r *http.Request) {
		for name, value := range headers {
			r.Header.Set(name, value)
		}
		switch {
		case c.Token != "":
			r.Header.Set("Authorization", "Bearer "+c.Token)
		case c.Username != "":
			r.SetBasicAuth(c.Username, c.Password)
		}
	}
}
