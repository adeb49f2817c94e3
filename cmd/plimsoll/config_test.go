package main

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// atHome runs the program with the files of this machine and a stopped clock.
func atHome(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = run(t.Context(), &cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err,
		Getenv: func(string) string { return "" }, ReadFile: os.ReadFile, Stat: os.Stat,
		Now:  func() time.Time { return time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC) },
		Exit: func(int) { t.Error("run exits by itself") },
	})
	return out.String(), err.String(), code
}

func TestEveryFaultOfASiteIsNamed(t *testing.T) {
	files, err := filepath.Glob("testdata/site/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			stdout, stderr, code := atHome(t, "doctor", "--config", file)
			if code != cli.ExitConfig || stdout != "" {
				t.Errorf("exits with %d and prints %q", code, stdout)
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				must.Do(t, os.WriteFile(golden, []byte(stderr), 0o644))
			}
			want := must.Get(os.ReadFile(golden))(t)
			if diff := cmp.Diff(string(want), stderr); diff != "" {
				t.Error(diff)
			}
			for _, secret := range []string{"00000000-0000", "11111111-1111", "opensesame", "K10::server"} {
				if strings.Contains(stderr, secret) {
					t.Errorf("it tells the secret %s", secret)
				}
			}
		})
	}
}

// A file that begins with a mark holds what it looks like.
func TestLinesAreReadBehindTheMarkOfTheirFile(t *testing.T) {
	if got, err := oneLine([]byte("\ufeffname:word\n")); err != nil || got != "name:word" {
		t.Errorf("%q, %v", got, err)
	}
}

// The document's first example has every key, and its examples are files that are accepted.
func TestDocumentHasEveryKeyOfTheConfiguration(t *testing.T) {
	data := must.Get(os.ReadFile("../../docs/proxmox.md"))(t)
	document := string(data)
	var examples []string
	for i, part := range strings.Split(document, "```yaml\n") {
		if example, _, ok := strings.Cut(part, "```"); ok && i > 0 {
			examples = append(examples, example)
		}
	}
	if len(examples) != 2 {
		t.Fatalf("the document has %d examples, want one with everything and a plain one", len(examples))
	}
	for _, example := range examples {
		files := fstest.MapFS{
			"site.yaml": {Data: []byte(example)}, "token": {Data: []byte("plimsoll@pve!plimsoll=00000000-0000-0000-0000-000000000000\n"), Mode: 0o600},
			"join-token": {Data: []byte("K10::server:secret\n")}, "registries.yaml": {Data: []byte("mirrors: {}\n")},
			"extra.yaml": {Data: []byte("#cloud-config\n")},
		}
		env := &cli.Env{ReadFile: files.ReadFile, Stat: files.Stat, Now: time.Now}
		if _, err := readSite(env, "site.yaml", false); err != nil {
			t.Errorf("an example is refused: %v", err)
		}
	}
	refused := map[reflect.Type]bool{reflect.TypeFor[nodescaler.Disruption](): true} // its keys
	for _, key := range keysOf(reflect.TypeFor[settings.Site](), refused) {
		if !regexp.MustCompile(`\b`+key+`:`).MatchString(examples[0]) && !regexp.MustCompile("`"+key+"`").MatchString(document) {
			t.Errorf("the document does not have the key %s", key)
		}
	}
}

// keysOf are the keys of our own types, at any depth.
func keysOf(t reflect.Type, seen map[reflect.Type]bool) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || seen[t] || !strings.Contains(t.PkgPath(), "/plimsoll/") {
		return nil
	}
	seen[t] = true
	var all []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			all = append(all, name)
		}
		all = append(all, keysOf(t.Field(i).Type, seen)...)
	}
	return all
}

func TestDocumentTellsEveryRight(t *testing.T) {
	data := must.Get(os.ReadFile("../../docs/proxmox.md"))(t)
	site := settings.Site{Pools: []settings.Pool{{
		Shapes: []pricing.Shape{{Disk: pricing.GiB}}, Template: placement.Template{VMID: 9000}, Storage: "ceph", ISO: settings.ISO{Storage: "discs"},
		Join:  firstboot.Profile{Kind: firstboot.K3s},
		Guest: settings.Guest{Agent: true, Options: map[string]string{"hostpci0": "mapping=gpu"}},
	}}}
	for _, release := range []doctor.Release{doctor.Release8, doctor.Release9} {
		for _, n := range doctor.Needs(&site, release, nil, nil) {
			for _, privilege := range n.Privileges {
				if !regexp.MustCompile(`\b` + regexp.QuoteMeta(privilege) + `\b`).Match(data) {
					t.Errorf("the document does not have the privilege %s", privilege)
				}
			}
		}
	}
}

// The document's example has every key of what runs in a cluster, and is a file that is accepted.
func TestDocumentHasEveryKeyOfRunningInACluster(t *testing.T) {
	data := must.Get(os.ReadFile("../../docs/run.md"))(t)
	_, rest, _ := strings.Cut(string(data), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the document has no example")
	}
	made, _, err := pvesim.SelfSigned("pve1.example")
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made.Certificate[0]})
	files := fstest.MapFS{
		"plimsoll.yaml": {Data: []byte(example)}, "pve-root-ca.pem": {Data: certificate},
		"token":             {Data: []byte("plimsoll@pve!plimsoll=00000000-0000-0000-0000-000000000000\n"), Mode: 0o600},
		"prometheus-ca.pem": {Data: certificate}, "prometheus-token": {Data: []byte("t\n")}, "pods-ca.pem": {Data: certificate}, "scrape-token": {Data: []byte("t\n")},
	}
	env := &cli.Env{ReadFile: files.ReadFile, Stat: files.Stat, Now: time.Now, Getenv: func(string) string { return "" }}
	site := must.Get(readRunning(env, "plimsoll.yaml", []string{partPodScaler, partNodeScaler}))(t)
	plain := &clusterSettings{Namespace: "plimsoll", Dashboard: "127.0.0.1:8642", KEDAScaler: "0.0.0.0:8088", Admission: &admissionSettings{Listen: "0.0.0.0:9443", Certificate: "admission.crt", Key: "admission.key"}, Journal: &journalSettings{File: "journal.ndjson"}, Recording: &recordingSettings{Folder: "recording"}}
	must.Do(t, plain.complete(env))
	plain.Nodes, plain.Notifications, plain.Limit, plain.Quotas, plain.HandOff = site.Nodes, site.Notifications, site.Limit, site.Quotas, site.HandOff
	if said := site.handOff(); said != (&siteFile{parts: site.parts}).handOff() {
		t.Errorf("the example hands off by %+v, which is not what is done without the key", said)
	}
	if diff := cmp.Diff(*plain, site.clusterSettings, cmp.AllowUnexported(clusterSettings{}), cmp.Comparer(func(a, b *nodeSettings) bool { return a == b })); diff != "" {
		t.Errorf("the example shows other values than those of keys that are omitted (-omitted +shown)\n%s", diff)
	}
	for _, part := range []reflect.Type{reflect.TypeFor[clusterSettings](), reflect.TypeFor[journalSettings](), reflect.TypeFor[recordingSettings](), reflect.TypeFor[nodeSettings](), reflect.TypeFor[measuring]()} {
		for _, key := range keysOf(part, map[reflect.Type]bool{}) {
			if !regexp.MustCompile(`\b`+key+`:`).MatchString(example) && !regexp.MustCompile("`"+key+"`").Match(data) && !strings.Contains(example, "or "+key) {
				t.Errorf("the document does not have the key %s", key)
			}
		}
	}
}

func TestStateIsAFolderUnlessItIsASlip(t *testing.T) {
	for state, refused := range map[string]bool{
		"": false, "kubernetes": false, "state": false, "orders": false, "/var/lib/plimsoll": false, "./kubernetess": false, "kube/state": false,
		"kubernetess": true, "Kubernetes": true, "kubernets": true, "ConfigMap": true, "k8s": false, "k3s": false, "k9s": false, "k8": false,
	} {
		if faults := checkState(state, filepath.Join(t.TempDir(), state)); (faults != nil) != refused {
			t.Errorf("state %q: %v, want a refusal: %v", state, faults, refused)
		}
	}
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "kubernets"), 0o700))
	s := &siteFile{service: service{State: "kubernets"}, folder: dir}
	if faults := s.check(nil); faults != nil {
		t.Errorf("a folder that is there beside the file: %v", faults)
	}
}
