package firstboot

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func decode(t *testing.T, r io.Reader) string {
	t.Helper()
	b := must.Get(io.ReadAll(base64.NewDecoder(base64.StdEncoding, r)))(t)
	return string(b)
}

// No verb, encoder or error shows a secret, or the bytes of the files that it goes into.
func TestSecretsAreNotShown(t *testing.T) {
	const secret = "s3cr3t"
	p := rke2()
	p.Token, p.Registries, p.CloudConfig = secret, "password: "+secret, "#cloud-config\n#"+secret+"\n"
	files := must.Get(p.UserData(machine()))(t)
	if !strings.Contains(string(files[UserData]), base64.StdEncoding.EncodeToString([]byte("#cloud-config\n#"+secret))) {
		t.Fatal("the user-data does not hold what is looked for")
	}
	var shown []string
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%c", "%U", "%10.3s"} {
		for _, v := range []any{p, &p, p.Token, &p.Token, []Secret{secret}, files, map[string]Files{"a": files}} {
			shown = append(shown, fmt.Sprintf(verb, v))
		}
	}
	encoded := must.Get(json.Marshal(map[string]any{"p": p, "token": p.Token, "files": files}))(t)
	if user := base64.StdEncoding.EncodeToString(files[UserData]); strings.Contains(string(encoded), user[:40]) {
		t.Errorf("shows the files: %s", encoded)
	}
	shown = append(shown, string(encoded), fmt.Sprint(p), p.Token.String())

	// In errors of any cause, and wherever the secret is.
	for _, bad := range []func(*Profile){
		func(p *Profile) { p.Token += "\n" },
		func(p *Profile) { p.Registries += "\xff" },
		func(p *Profile) { p.CloudConfig = "#cloud-config\nmerge_how: x\n" + p.CloudConfig },
		func(p *Profile) { p.CloudConfig = "password: " + secret + "\n" },
		func(p *Profile) {
			p.Install = Install{From: "script", Channel: "stable", Script: "https://user:" + secret + "@mirror.example/join.sh"}
		},
		func(p *Profile) { p.Servers = []string{"https://user:" + secret + "@rke2.example:9345"} },
		func(p *Profile) {
			p.Install = Install{From: "script", Channel: "stable", Env: map[string]string{"http_proxy": "http://user:" + secret + "@proxy.example"}}
		},
		func(p *Profile) {
			p.Install = Install{From: "script", Channel: "stable", Env: map[string]string{"HTTPS_PROXY": "http://user:" + secret + "@proxy.example\n"}}
		},
		func(p *Profile) {
			p.Kind, p.UserDataTemplate = Custom, "{{index \""+secret+"\" .Name}}"
			p.Registries, p.CloudConfig = "", ""
		},
		func(p *Profile) {
			p.Kind, p.UserDataTemplate = Custom, "{{.Token.Field}} {{/*"+secret+"*/}}"
			p.Registries, p.CloudConfig = "", ""
		},
		func(p *Profile) {
			p.Kind, p.UserDataTemplate = Talos, "hostname: "+secret
			p.Registries, p.CloudConfig = "", ""
		},
		func(p *Profile) { p.SSHKeys = []string{"-----BEGIN OPENSSH PRIVATE KEY----- " + secret} },
	} {
		p := p
		bad(&p)
		_, err := p.UserData(machine())
		if err == nil {
			t.Fatal("an error was expected")
		}
		shown = append(shown, err.Error())
	}
	for _, s := range shown {
		for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret), "115 51 99"} {
			if strings.Contains(s, form) {
				t.Errorf("shows the secret: %s", s)
			}
		}
	}
}

func TestServersTokensAreKnownFromAgents(t *testing.T) {
	for token, want := range map[Secret]bool{
		// server/node-token of k3s and RKE2, where agents have none of their own.
		"K10c0ffee::server:secret":     true,
		"K10::server:secret":           true,
		"K10c0ffee::server:a::node:b":  true,
		"K10c0ffee::node:secret":       false, // server/agent-token
		"K10c0ffee::abcdef.0123456789": false, // a bootstrap token, of kubeadm's kind
		"K10c0ffee::node:a::server:b":  false,
		"secret":                       false, // only a password: it may be either
		"server:secret":                false,
		"":                             false,
	} {
		if got := token.JoinsServers(); got != want {
			t.Errorf("%q joins servers: %v, want %v", string(token), got, want)
		}
	}
}
