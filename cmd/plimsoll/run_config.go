package main

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/statedir"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// service is the part of the configuration file that says how the process runs.
type service struct {
	// State is the folder where orders, and certificates that we make ourselves, are kept.
	State string `json:"state,omitempty"`
	// Metrics is where metrics and health are served: host:port.
	Metrics string `json:"metrics,omitempty"`
	// Prices is what capacity costs; without it a unit per vCPU-hour and one per GB-hour.
	Prices *pricing.Book `json:"prices,omitempty"`
	// Kubeconfig is how the cluster is reached from outside of it.
	Kubeconfig string           `json:"kubeconfig,omitempty"`
	Provider   providerSettings `json:"provider"`
}

// providerSettings is how cluster-autoscaler is served.
type providerSettings struct {
	// Listen is host:port, or unix:PATH.
	Listen string `json:"listen,omitempty"`
	// Expander is where the expander is served, host:port or unix:PATH; without it, it is not.
	Expander string `json:"expander,omitempty"`
	// TLS names files; without it a set is made on the first start, in the state folder.
	TLS *tlsFiles `json:"tls,omitempty"`
	// Names are further names and addresses that clients know us by, in a set that we make.
	Names []string `json:"names,omitempty"`
	// Plaintext serves without TLS: on a loopback address or a unix socket, or, with anywhere, to
	// everybody.
	Plaintext plaintext `json:"plaintext,omitempty"`
	// Options are what cluster-autoscaler is to do with a pool otherwise than its flags say, by
	// pool.
	Options map[string]*provider.Options `json:"options,omitempty"`
}

type tlsFiles struct {
	Certificate string `json:"certificate" strict:"required"`
	Key         string `json:"key" strict:"required"`
	ClientCA    string `json:"clientCA" strict:"required"`
	// Clients are the names of those who may order and destroy machines. It must not be empty where
	// the provider runs: an authority alone lets in every workload that it signs for.
	Clients []string `json:"clients,omitempty"`
}

// check is what is wrong with them; serving is whether clients are let in by them.
func (t *tlsFiles) check(serving bool) (faults []error) {
	switch {
	case t == nil:
		return nil
	case serving && len(t.Clients) == 0:
		faults = append(faults, pricing.NewFault("provider.tls.clients", "must name whose certificates may order and destroy machines, such as "+
			"["+provider.SelfMadeClient+"] (exactly a DNS name, URI or common name of the client's certificate), was empty"))
	}
	for i, name := range t.Clients {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '*' || r <= ' ' || r > '~' }) {
			faults = append(faults, pricing.NewFault(fmt.Sprintf("provider.tls.clients[%d]", i), fmt.Sprintf("must be exactly a DNS name, URI or common name, without spaces and *, was %q", name)))
		}
	}
	return faults
}

// plaintext is whether TLS is done without.
type plaintext string

const (
	plainNever    plaintext = ""
	plainLocal    plaintext = "local"
	plainAnywhere plaintext = "anywhere"
)

// check adds what is wrong with the settings, by key, rule and value.
func (s *siteFile) check(pools []string) []error {
	var faults pricing.Faults
	must := faults.Must
	if s.Metrics != "" {
		_, _, ok := cli.SplitAddress(s.Metrics)
		must(ok, "metrics", "host:port", fmt.Sprintf("%q", s.Metrics))
	}
	faults = append(faults, checkState(s.State, s.beside(s.State))...)
	faults = append(faults, s.checkAddresses()...)
	p := &s.Provider
	for _, at := range []struct{ key, is string }{{"listen", p.Listen}, {"expander", p.Expander}} {
		path, unix := strings.CutPrefix(at.is, "unix:")
		_, _, ok := cli.SplitAddress(at.is)
		must(at.is == "" || unix && path != "" || !unix && ok, "provider."+at.key, "host:port or unix:PATH", fmt.Sprintf("%q", at.is))
	}
	faults = append(faults, p.TLS.check(!s.examining && slices.Contains(s.parts, partProvider))...)
	must(len(p.Names) == 0 || p.TLS == nil && p.Plaintext == plainNever, "provider.names", "omitted beside tls or plaintext: they go into a certificate that we make", p.Names)
	for i, n := range p.Names {
		must(cli.IsHost(n), fmt.Sprintf("provider.names[%d]", i), "a DNS name in lower case or an address", fmt.Sprintf("%q", n))
	}
	known := []plaintext{plainNever, plainLocal, plainAnywhere}
	must(slices.Contains(known, p.Plaintext), "provider.plaintext", "local or anywhere, or omitted", fmt.Sprintf("%q", p.Plaintext))
	must(p.Plaintext == plainNever || p.TLS == nil, "provider.plaintext", "omitted beside tls", fmt.Sprintf("%q", p.Plaintext))
	for _, pool := range slices.Sorted(maps.Keys(p.Options)) {
		key := "provider.options." + pool
		must(len(pools) == 0 || slices.Contains(pools, pool), key, fmt.Sprintf("of one of the pools %s", strings.Join(pools, ", ")), "of none")
		for _, err := range cli.Parts(p.Options[pool].Validate()) {
			faults = append(faults, pricing.NewFault(key+"."+cli.KeyOf(err), strings.TrimPrefix(err.Error(), cli.KeyOf(err)+": ")))
		}
	}
	for i := range s.Pools {
		must(s.Pools[i].Disruption.IsZero(), fmt.Sprintf("pools[%d].disruption", i), "absent: cluster-autoscaler decides which machines of these pools go", "there")
	}
	if s.Prices != nil {
		for _, err := range cli.Parts(s.Prices.Validate()) {
			faults = append(faults, pricing.NewFault("prices."+cli.KeyOf(err), strings.TrimPrefix(err.Error(), cli.KeyOf(err)+": ")))
		}
	}
	return faults
}

// Where is served what must be, unless the file names another address.
const pagesAt, providerAt = "127.0.0.1:8080", "127.0.0.1:8086"

// checkAddresses refuses an address that another listener takes.
func (s *siteFile) checkAddresses() (faults []error) {
	if s.parts == nil || s.examining {
		return nil
	}
	type listener struct{ key, address string }
	all := []listener{{"metrics", cmp.Or(s.Metrics, pagesAt)}, {"dashboard", s.Dashboard}, {"kedaScaler", s.KEDAScaler}}
	if s.Admission != nil {
		all = append(all, listener{"admission.listen", s.Admission.Listen})
	}
	if slices.Contains(s.parts, partProvider) {
		all = append(all, listener{"provider.listen", cmp.Or(s.Provider.Listen, providerAt)}, listener{"provider.expander", s.Provider.Expander})
	}
	for i, l := range all {
		other := slices.IndexFunc(all[:i], func(o listener) bool { return overlap(o.address, l.address) })
		if other >= 0 {
			faults = append(faults, pricing.NewFault(l.key, fmt.Sprintf("must not take the address of %s, %s, was %q", all[other].key, all[other].address, l.address)))
		}
	}
	return faults
}

// overlap reports whether no two can listen on these addresses.
func overlap(a, b string) bool {
	hostA, portA, isA := cli.SplitAddress(a)
	hostB, portB, isB := cli.SplitAddress(b)
	if !isA || !isB {
		return a != "" && a == b // unix:PATH
	}
	everywhere := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	return portA == portB && portA != 0 && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

// checkState refuses what was meant to be kubernetes: a folder of that name would be made, and
// orders kept where the pod's successor does not look. A path with a separator is a folder of any
// name, and so is one that is there.
func checkState(state, folder string) []error {
	if state == stateInCluster || strings.ContainsRune(state, filepath.Separator) {
		return nil
	}
	if _, slip := strict.Nearest(state, []string{stateInCluster, "configmap"}); !slip {
		return nil
	}
	if at, err := os.Stat(folder); err == nil && at.IsDir() {
		return nil
	}
	return []error{pricing.NewFault("state", fmt.Sprintf("must be %s, or a folder, which is written ./%s if it is called so, was %q", stateInCluster, state, state))}
}

// running is a site that machines are made on, with what the process needs besides.
type running struct{ *siteFile }

// readRunning reads the configuration file and completes what was omitted.
func readRunning(env *cli.Env, file string, parts []string) (*running, error) {
	site, err := readFor(env, file, &siteFile{parts: parts})
	if err != nil {
		return nil, err
	}
	switch rule := "must be the folder where orders are kept, "; {
	case site.makesMachines() && site.State == "" && !site.inCluster():
		return nil, cli.Misconfigured(file, pricing.NewFault("state", rule+"was not given"))
	case site.makesMachines() && site.State == "":
		return nil, cli.Misconfigured(file, pricing.NewFault("state", rule+"or kubernetes for a ConfigMap, was not given"))
	case site.State == stateInCluster && !site.inCluster():
		return nil, cli.Misconfigured(file, pricing.NewFault("state", rule+"was kubernetes, which needs VMPools in place of the pools in the file"))
	}
	if site.inCluster() {
		if err := site.complete(env); err != nil {
			return nil, cli.Misconfigured(file, err)
		}
	}
	if site.Metrics == "" {
		site.Metrics = pagesAt
	}
	if site.Provider.Listen == "" {
		site.Provider.Listen = providerAt
	}
	return &running{site}, nil
}

// groups are the pools that cluster-autoscaler may scale.
func (s *running) groups() []provider.Pool {
	var all []provider.Pool
	for i := range s.Pools {
		p := s.Pools[i].Complete()
		all = append(all, provider.Pool{Pool: p.Words(), Options: s.Provider.Options[p.Name]})
	}
	return all
}

// rest is how the cluster is reached.
func (s *running) rest() (*rest.Config, error) {
	if s.reach != nil {
		cfg, _, err := s.kubeBeside(*s.reach).Config(s.env)
		return cfg, err
	}
	var cfg *rest.Config
	var err error
	if s.Kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", s.beside(s.Kubeconfig))
	} else if cfg, err = rest.InClusterConfig(); errors.Is(err, rest.ErrNotInCluster) {
		err = connect.ErrNoCluster
	}
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("kubeconfig: %w", err))
	}
	return cfg, nil
}

// certificateLife is how long a set of certificates lasts that we make. Whoever wants them rotated
// has cert-manager do it.
const certificateLife = 10 * 365 * 24 * time.Hour

// listening is how cluster-autoscaler is let in.
func (s *running) listening(state *statedir.Folder, registry prometheus.Registerer) (provider.Listening, error) {
	how := provider.Listening{Metrics: registry, PlainAnywhere: s.Provider.Plaintext == plainAnywhere}
	if s.Provider.Plaintext != plainNever {
		if how.PlainAnywhere {
			fmt.Fprintln(s.env.Stderr, "warning: provider.plaintext is anywhere: whoever reaches", s.Provider.Listen, "can order and delete machines")
		}
		return how, nil
	}
	read := func(name string) func() ([]byte, error) {
		return func() ([]byte, error) { return s.env.ReadFile(name) }
	}
	files := s.Provider.TLS
	if files == nil {
		folder, err := s.selfMade(state)
		if err != nil {
			return how, fmt.Errorf("certificates: %w", err)
		}
		files = &tlsFiles{
			Certificate: filepath.Join(folder, "server.crt"), Key: filepath.Join(folder, "server.key"), ClientCA: filepath.Join(folder, "ca.crt"),
			Clients: []string{provider.SelfMadeClient},
		}
	}
	how.TLS = &provider.TLS{
		Certificate: read(s.beside(files.Certificate)), Key: read(s.beside(files.Key)), ClientCA: read(s.beside(files.ClientCA)), Clients: files.Clients,
		Warn: func(err error) { fmt.Fprintln(s.env.Stderr, "warning: provider.tls:", err) },
	}
	return how, nil
}

// hosts are the names and addresses that clients know us by.
func (s *running) hosts() []string {
	hosts := append([]string{"localhost", "127.0.0.1", "plimsoll.plimsoll.svc", "plimsoll-provider.plimsoll.svc"}, s.Provider.Names...)
	host, _, err := net.SplitHostPort(s.Provider.Listen)
	if err == nil && host != "" && !strings.HasPrefix(s.Provider.Listen, "unix:") && !net.ParseIP(host).IsUnspecified() {
		hosts = append(hosts, host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// selfMade is the folder with the certificates that we made, now or on an earlier start.
func (s *running) selfMade(state *statedir.Folder) (string, error) {
	folder, err := filepath.Abs(string(state.File("provider")))
	if err != nil {
		return "", err
	}
	text, err := s.env.ReadFile(filepath.Join(folder, "server.crt"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return folder, s.makeCertificates(state, folder)
	case err != nil:
		return "", err
	}
	if lacks := notIn(text, s.hosts()); len(lacks) > 0 {
		fmt.Fprintf(s.env.Stderr, "warning: the certificate in %s was made without %s, and clients that know us so will refuse it; remove the folder to have a set made anew\n",
			folder, strings.Join(lacks, ", "))
	}
	return folder, nil
}

// notIn are the hosts that a certificate is not for. One that cannot be read is refused where it is
// used.
func notIn(text []byte, hosts []string) []string {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(hosts, func(h string) bool {
		if ip := net.ParseIP(h); ip != nil {
			return slices.ContainsFunc(c.IPAddresses, ip.Equal)
		}
		return slices.Contains(c.DNSNames, h)
	})
}

// makeCertificates makes a set and says how cluster-autoscaler gets its part.
func (s *running) makeCertificates(state *statedir.Folder, folder string) error {
	set, err := provider.SelfMade(s.hosts(), s.env.Now(), certificateLife)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{ // the server's own comes last: while it is not there, none of them is
		{"ca.crt", set.CA}, {"client.crt", set.Client}, {"client.key", set.ClientKey}, {"server.key", set.ServerKey}, {"server.crt", set.Server},
	} {
		if err := state.Put(filepath.Join("provider", f.name), f.text); err != nil {
			return err
		}
	}
	hand := []string{"kubectl", "-n", "kube-system", "create", "secret", "generic", "plimsoll-provider-client"}
	for _, f := range []string{"ca.crt=ca.crt", "tls.crt=client.crt", "tls.key=client.key"} {
		key, name, _ := strings.Cut(f, "=")
		hand = append(hand, "--from-file="+key+"="+filepath.Join(folder, name))
	}
	fmt.Fprintf(s.env.Stderr, "note: made certificates in %s; give cluster-autoscaler its own: %s\n", folder, pveapi.Shell(hand...))
	return nil
}

// profilesAgain is how often the files that join profiles name are read again.
const profilesAgain = 30 * time.Second

// rereadProfiles gives the fleet the pools of the file with what their join profiles name now,
// until the context is done: a join token may be rotated while the program runs.
func (s *running) rereadProfiles(ctx context.Context, configure func([]settings.Pool, *pricing.Book) error) {
	every, said := time.NewTicker(profilesAgain), ""
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			said = s.rereadOnce(said, configure)
		}
	}
}

// rereadOnce reads them once. What cannot be read or used leaves the pools as they are, and is said
// unless it was the last time.
func (s *running) rereadOnce(said string, configure func([]settings.Pool, *pricing.Book) error) string {
	site := settings.Site{Pools: slices.Clone(s.Pools)}
	err := site.Read(s.readBeside)
	if err == nil {
		err = configure(site.Pools, s.Prices)
	}
	if err == nil {
		return ""
	}
	if err.Error() != said {
		fmt.Fprintf(s.env.Stderr, "join profiles are used as they were read before: %v\n", err)
	}
	return err.Error()
}
