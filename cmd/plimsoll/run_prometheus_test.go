package main

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// readMeasured reads a configuration file for podscaler, with files beside it.
func readMeasured(t *testing.T, files fstest.MapFS) *siteFile {
	t.Helper()
	env := &cli.Env{ReadFile: func(name string) ([]byte, error) { return files.ReadFile(filepath.Clean(name)) }, Stat: files.Stat, Now: time.Now}
	return must.Get(readFor(env, "plimsoll.yaml", &siteFile{parts: []string{partPodScaler}}))(t)
}

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

// A WorkloadAutoscaler without a server of its own is measured by that of the file, which sees what
// the file names: what is in the files now, and not what was there at the start.
func TestWorkloadsShareThePrometheusOfTheFile(t *testing.T) {
	var seen []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.Header.Get("Authorization")+" of "+r.Header.Get("X-Scope-OrgID"))
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1772625600,"7"]}}`))
	}))
	t.Cleanup(server.Close)
	files := fstest.MapFS{
		"plimsoll.yaml": file("namespace: plimsoll\nprometheus: {url: " + server.URL + ", headers: {X-Scope-OrgID: home}, caFile: ca.pem, tokenFile: token}\n"),
		"ca.pem":        file(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))),
		"token":         file("first\n"),
	}
	r := signals.New(readMeasured(t, files).signalOptions(nil, ""))
	source := signals.Source{
		Target: signals.Target{Namespace: "shop", Kind: "Deployment", Name: "cart"},
		Spec:   signals.Spec{Queries: signals.Queries{Arrivals: `up{namespace="$namespace"}`}},
	}
	must.Do(t, r.Configure(map[string]signals.Source{"shop/cart": source}))
	arrivals := func() podscaler.Reading {
		now := time.Unix(1772625600, 0)
		r.Prepare(t.Context(), now)
		w := must.Get(r.Read(t.Context(), &podscaler.Workload{Name: "shop/cart"}, now))(t)
		return w.Arrivals
	}
	if got := arrivals(); got != podscaler.Known(7) {
		t.Errorf("got %+v", got)
	}
	files["token"] = file("second")
	arrivals()
	if d := cmp.Diff([]string{"Bearer first of home", "Bearer second of home"}, seen); d != "" {
		t.Errorf("the server saw (-want +got):\n%s", d)
	}
	delete(files, "token")
	want := "its credentials cannot be read: prometheus.tokenFile: must be a file that can be read: open token: file does not exist"
	if got := arrivals(); got.Known || got.Why != want {
		t.Errorf("without the file: %+v, want why %q", got, want)
	}
}

func TestFilesWithCredentialsAreReadAndNeverTold(t *testing.T) {
	const secret = "opensesame"
	for _, c := range []struct {
		name, keys, text string
		want             signals.Credentials
		fault            string
	}{
		{"a token", "tokenFile: f", secret + "\n", signals.Credentials{Token: secret, ServerName: "pods.internal"}, ""},
		{"name and password, which may have colons", "basicAuthFile: f", "me:" + secret + ":x", signals.Credentials{Username: "me", Password: secret + ":x", ServerName: "pods.internal"}, ""},
		{"no name", "basicAuthFile: f", ":" + secret, signals.Credentials{}, "scrape.basicAuthFile: must hold username:password on one line, but f has no user before a colon"},
		{"nothing", "tokenFile: f", "\n", signals.Credentials{}, "scrape.tokenFile: must hold a token on one line, but f is empty"},
		{"what would end the header", "tokenFile: f", secret + "\rX: y", signals.Credentials{}, "scrape.tokenFile: must hold a token on one line, but f has a control character in it"},
		{"no certificates", "caFile: f", secret, signals.Credentials{}, "scrape.caFile: must hold certificates in PEM, but f has none in its 10 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := fstest.MapFS{"plimsoll.yaml": file("namespace: plimsoll\nscrape: {serverName: pods.internal, " + c.keys + "}\n"), "f": file(c.text)}
			if c.fault != "" {
				_, stderr, code := inProcess(t, files, "run", "--components", "podscaler", "--config", "plimsoll.yaml")
				if code != cli.ExitConfig || !strings.Contains(stderr, c.fault) || strings.Contains(stderr, secret) {
					t.Errorf("exits with %d: %s", code, stderr)
				}
				return
			}
			got := must.Get(readMeasured(t, files).signalOptions(nil, "").ScrapeCredentials(t.Context()))(t)
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
