package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/prometheus"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

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
