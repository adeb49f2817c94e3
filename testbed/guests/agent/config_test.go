package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// What agents read, by the rules of their documentation: files in order, + adds, the environment
// comes last, and a fault keeps the agent from starting.
func TestAgentsReadTheirFiles(t *testing.T) {
	for name, c := range map[string]struct {
		files, env string
		want       settings
		fault      string
	}{
		"the file": {
			files: "-- config.yaml --\nserver: \"https://a:9345\"\ntoken: \"no\"\nnode-label: [\"a=b\", \"c=\"]\ndebug: true\n",
			want:  settings{"server": {"https://a:9345"}, "token": {"no"}, "node-label": {"a=b", "c="}, "debug": {"true"}},
		},
		"files beside it, in order": {
			files: "-- config.yaml --\nserver: https://a\ntoken: b\nnode-label: [a=1]\nnode-taint: [x:NoSchedule]\nkubelet-arg: v=1\n" +
				"-- config.yaml.d/20.yml --\nnode-label+: [a=3]\n-- config.yaml.d/10.yaml --\nnode-label+: a=2\nnode-taint: [y:NoSchedule]\nkubelet-arg+: [v=2]\nnode-ip+: 10.0.0.1\n" +
				"-- config.yaml.d/30.txt --\n:\n-- config.yaml.d/40.yaml --\n",
			want: settings{
				"server": {"https://a"}, "token": {"b"}, "node-label": {"a=1", "a=2", "a=3"}, "node-taint": {"y:NoSchedule"},
				"kubelet-arg": {"v=1", "v=2"}, "node-ip": {"10.0.0.1"},
			},
		},
		"only files beside it": {
			files: "-- config.yaml.d/10.yaml --\nserver: https://a\ntoken: b\n", want: settings{"server": {"https://a"}, "token": {"b"}},
		},
		"the environment where the files say nothing": {
			files: "-- config.yaml --\ntoken: b\n", env: "RKE2_TOKEN=c RKE2_URL=https://e RKE2_SELINUX=true K3S_NODE_NAME=x",
			want: settings{"server": {"https://e"}, "token": {"b"}, "selinux": {"true"}},
		},
		"a flag of k3s":      {files: "-- config.yaml --\nserver: https://a\ntoken: b\nflannel-iface: eth0\n", fault: "flag provided but not defined: -flannel-iface"},
		"an invalid boolean": {files: "-- config.yaml --\nserver: https://a\ntoken: b\nselinux: enforcing\n", fault: `invalid boolean value "enforcing" for -selinux`},
		"no token":           {files: "-- config.yaml --\nserver: https://a\n", fault: "--token is required"},
		"no server":          {files: "-- config.yaml --\ntoken: b\n", fault: "--server is required"},
		"no file":            {fault: "--token is required"},
		"no map":             {files: "-- config.yaml --\n- a\n", fault: "config.yaml: cannot unmarshal"},
		"no YAML":            {files: "-- config.yaml --\na: 'b\n", fault: "config.yaml: "},
		"a token in no file": {files: "-- config.yaml --\nserver: https://a\ntoken-file: /nowhere\n", fault: "/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, f := range txtar.Parse([]byte(c.files)).Files {
				at := filepath.Join(folder, f.Name)
				if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			env := map[string]string{"RKE2_CONFIG_FILE": filepath.Join(folder, "config.yaml")}
			for _, pair := range strings.Fields(c.env) {
				key, value, _ := strings.Cut(pair, "=")
				env[key] = value
			}
			got, err := read("rke2", func(name string) string { return env[name] })
			if c.fault != "" {
				if err == nil || !strings.Contains(err.Error(), c.fault) {
					t.Fatalf("the fault is %v, want %q", err, c.fault)
				}
				return
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Fatalf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestAgentsReadTokens(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for token, want := range map[string]credentials{
		"secret":                                   {user: "node", password: "secret"},
		"se:cret":                                  {user: "node", password: "se:cret"},
		"K10" + hash + "::node:secret":             {hash: hash, user: "node", password: "secret"},
		"K10" + hash + "::server:it's: odd":        {hash: hash, user: "server", password: "it's: odd"},
		"abcdef.0123456789abcdef":                  {bearer: "abcdef.0123456789abcdef"},
		"K10" + hash + "::abcdef.0123456789abcdef": {hash: hash, bearer: "abcdef.0123456789abcdef"},
	} {
		if got, err := parse(token); err != nil || got != want {
			t.Errorf("%s is read as %+v (%v), want %+v", token, got, err, want)
		}
	}
	for _, token := range []string{"K10c0ffee::node:secret", "K10" + hash + "::node:", "K10" + hash + "::secret", "K10secret"} {
		if got, err := parse(token); err == nil {
			t.Errorf("%s is read as %+v, want a fault", token, got)
		}
	}
}
