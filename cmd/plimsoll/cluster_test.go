package main

import (
	"bufio"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// clusterKey is where a script keeps its emulated cluster.
type clusterKey struct{}

// emulated is a script's emulated cluster, and root's shell there.
type emulated struct {
	*pvesim.Cluster
	shell *pvesim.Console
}

// prepare gives a script room for a cluster.
func prepare(env *testscript.Env) error {
	env.Values[clusterKey{}] = &emulated{}
	env.Setenv("HOSTILE", "hostile\x1b[2J\u009b\u202e") // a name that steers terminals
	// Scripts' files are for everybody to read, which secrets are not.
	if err := os.Chmod(filepath.Join(env.WorkDir, "join-token"), 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// clusterOf is the script's cluster, which begins when it is first needed.
func clusterOf(ts *testscript.TestScript) *emulated {
	e := ts.Value(clusterKey{}).(*emulated)
	if e.Cluster != nil {
		return e
	}
	cfg := pvesim.Config{
		Name: "home", Start: time.Now(), Speed: 1,
		Storages: []pvesim.Storage{
			{Name: "ceph", Type: "rbd", Shared: true, Content: []string{"images"}, Total: 1 << 40},
			{Name: "discs", Type: "nfs", Shared: true, Content: []string{"iso"}, Total: 64 << 30},
			{Name: "local", Type: "dir", Content: []string{"import"}, Total: 64 << 30},
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: 64 << 30},
		},
		VMs: []pvesim.VM{{ID: 9000, Host: "pve1", Template: true, Storage: "ceph", Disk: 10 << 30, Config: map[string]string{"name": "golden", "agent": "1"}}},
	}
	for _, name := range []string{"pve1", "pve2"} {
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: name, CPUs: 8, Memory: 32 << 30})
	}
	c, err := pvesim.New(cfg)
	ts.Check(err)
	ts.Defer(c.Close)
	e.Cluster, e.shell = c, c.Console()
	return e
}

// serveHosts serves hosts of the cluster over HTTPS, and sets their addresses and fingerprints in
// the script's environment: PVE1, PRINT1 and so on. Their certificates are in
// pve1.pem and so on.
func serveHosts(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: serve host...")
	}
	c := clusterOf(ts)
	for _, host := range args {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Defer(func() { _ = l.Close() })
		certificate, print, err := pvesim.SelfSigned("127.0.0.1")
		ts.Check(err)
		go func() { _ = c.Serve(l, host, &tls.Config{Certificates: []tls.Certificate{certificate}}) }()
		number := strings.TrimPrefix(host, "pve")
		ts.Setenv("PVE"+number, "https://"+l.Addr().String())
		ts.Setenv("PRINT"+number, print)
		block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
		ts.Check(os.WriteFile(ts.MkAbs(host+".pem"), block, 0o644))
	}
}

// expand puts the environment's values into files.
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: expand file...")
	}
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}

// root runs a line in root's shell: root pveum pool add k8s. What is in a file is run with
// root -f FILE TOKENFILE, and the token that is shown there is written down.
func root(ts *testscript.TestScript, neg bool, args []string) {
	shell := clusterOf(ts).shell
	if len(args) != 3 || args[0] != "-f" {
		if err := shell.Run(strings.Join(args, " ")); (err != nil) != neg {
			ts.Fatalf("%s: %v", strings.Join(args, " "), err)
		}
		return
	}
	lines := bufio.NewScanner(strings.NewReader(ts.ReadFile(args[1])))
	for lines.Scan() {
		if line := lines.Text(); line != "" && !strings.HasPrefix(line, "#") {
			ts.Check(shell.Run(line))
		}
	}
	for _, token := range shell.Tokens {
		ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(token+"\n"), 0o600))
	}
	clear(shell.Tokens) // a value is shown once
}

// fault puts a fault into the cluster: fault full storage ceph.
func fault(ts *testscript.TestScript, neg bool, args []string) {
	faults, err := pvesim.ParseFaults(strings.Join(args, " "))
	if err == nil {
		for _, f := range faults {
			err = clusterOf(ts).Inject(f)
		}
	}
	if neg || err != nil {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

// onlyread wants all calls of the token that the script made to be reads.
func onlyread(ts *testscript.TestScript, neg bool, args []string) {
	read := 0
	for _, call := range clusterOf(ts).Calls() {
		if strings.HasPrefix(call.User, "plimsoll@pve") || strings.HasPrefix(call.User, "reader@pve") {
			if read++; call.Method != "GET" {
				ts.Fatalf("it has done %s %s", call.Method, call.Path)
			}
		}
	}
	if neg || len(args) > 0 || read == 0 {
		ts.Fatalf("usage: onlyread, after something was read")
	}
	fmt.Fprintf(ts.Stdout(), "%d calls, all reads\n", read)
}

// vmpools serves as much of the Kubernetes API as lists VMPools, and writes the file kubeconfig for
// it: vmpools file..., vmpools - where there is no such kind, vmpools ! where they may not be
// listed, or vmpools ? where the credentials are refused.
func vmpools(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: vmpools -|!|?|file...")
	}
	var items []string
	for _, name := range args {
		if !strings.Contains("-!?", name) {
			items = append(items, ts.ReadFile(name))
		}
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/apis/plimsoll.dev/v1alpha1/vmpools" || r.Method != http.MethodGet || slices.Contains(args, "-") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		refuse := func(code int, reason, message string) {
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "message": %q}`, reason, code, message)
		}
		switch {
		case slices.Contains(args, "!"):
			refuse(http.StatusForbidden, "Forbidden", "vmpools.plimsoll.dev is forbidden")
			return
		case slices.Contains(args, "?"):
			refuse(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
			return
		}
		fmt.Fprintf(w, `{"kind": "VMPoolList", "apiVersion": "plimsoll.dev/v1alpha1", "items": [%s]}`, strings.Join(items, ","))
	}))
	ts.Defer(s.Close)
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: ann}}], users: [{name: ann, user: {token: t}}], clusters: [{name: c, cluster: {server: %q}}]}`, s.URL)
	ts.Check(os.WriteFile(ts.MkAbs("kubeconfig"), []byte(text), 0o600))
}
