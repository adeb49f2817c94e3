package firstboot

import (
	"fmt"
	"regexp"
	"strings"
	"text/template"
)

// fields are what a user-data template is filled with; Profile.UserDataFile documents them.
type fields struct {
	Name, Host, Region, UUID string
	VMID                     int
	ProviderID               string
	Server, Token            string
	Labels                   map[string]string
	Taints                   []Taint
	NodeLabels, NodeTaints   []string
	User                     string
	SSHKeys                  []string
}

var functions = template.FuncMap{"yaml": quote, "join": strings.Join}

// render fills in the template for a machine, and checks that the result will do.
func (p *Profile) render(m *Machine, id string) (string, error) {
	var f faults
	s := p.filled(&f, m, id, "error")
	return s, f.join()
}

// filled is the template filled in; missing says what becomes of labels that are not there. What
// is wrong is reported without the secrets that may be in it.
func (p *Profile) filled(f *faults, m *Machine, id, missing string) string {
	t, err := template.New(UserData).Funcs(functions).Option("missingkey=" + missing).Parse(string(p.UserDataTemplate))
	var s string
	if err == nil {
		s, err = p.execute(t, m, id)
	}
	if err != nil {
		f.must(false, "userDataFile", "must be a template that can be filled in", words(redact(err.Error(), p.Token)))
		return ""
	}
	if rule := p.unfit(s, m.Name); rule != "" {
		f.must(false, "userDataFile", rule, words(fmt.Sprintf("a text of %d bytes", len(s))))
	}
	return s
}

func (p *Profile) execute(t *template.Template, m *Machine, id string) (string, error) {
	labels, taints := p.labels(m), p.taints(m)
	var b strings.Builder
	err := t.Execute(&b, fields{
		Name: m.Name, Host: m.Host, Region: m.Region, UUID: m.UUID, VMID: m.VMID,
		ProviderID: id, Server: p.server(m.Name), Token: string(p.Token),
		Labels: labels, Taints: taints, NodeLabels: labelList(labels), NodeTaints: taintList(taints),
		User: p.User, SSHKeys: p.SSHKeys,
	})
	return b.String(), err
}

// unfit returns the rule that a rendered text breaks, or "".
func (p *Profile) unfit(s, name string) string {
	switch {
	case strings.TrimSpace(s) == "":
		return "must give a text"
	case p.Kind == Talos && strings.HasPrefix(s, "#cloud-config"):
		return "must not begin with #cloud-config, which Talos passes over"
	case p.Kind == Talos:
		return unfitForTalos(comments.ReplaceAllString(s, ""), name)
	}
	return ""
}

// What Talos' configuration is looked through for. Its documents are not parsed: they are the
// operator's, of any version of Talos, and Talos judges them itself.
var (
	comments       = regexp.MustCompile(`(?m)^\s*#.*$`)
	autoHostname   = regexp.MustCompile(`(?m)^\s*auto:\s*["']?stable\b`)
	hostnameConfig = regexp.MustCompile(`(?m)^\s*kind:\s*["']?HostnameConfig\b`)
	stableHostname = regexp.MustCompile(`(?m)^\s*stableHostname:\s*["']?true\b`)
)

// unfitForTalos finds what would have the node come up under another name, or not at all.
func unfitForTalos(s, name string) string {
	hostname := regexp.MustCompile(`(?m)(?:^|[\s{,])["']?hostname["']?:[ \t]*["']?` + regexp.QuoteMeta(name) + `["']?[ \t]*(?:$|[ \t]#|[},])`)
	if n := len(hostname.FindAllString(s, -1)); n != 1 {
		return fmt.Sprintf("must set hostname to {{.Name}} at one place, and does at %d", n)
	}
	if autoHostname.MatchString(s) {
		return "must not have auto: stable beside a hostname, which Talos refuses"
	}
	if hostnameConfig.MatchString(s) && stableHostname.MatchString(s) {
		return "must not have stableHostname: true beside a HostnameConfig, which Talos refuses"
	}
	return ""
}

// checkTemplate checks what is to be filled in for every machine, by filling it in for one.
func (p *Profile) checkTemplate(f *faults) {
	if p.Kind != Talos && p.Kind != Custom {
		return
	}
	if p.UserDataTemplate == "" {
		f.must(p.Kind == Custom || p.UserDataFile != "", "userDataFile", "must be there, for kind talos needs a machine configuration", absent)
		return
	}
	sample := Machine{Name: "sample-0", Host: "host", Region: "region", UUID: "00000000-0000-0000-0000-000000000000", VMID: 100}
	p.filled(f, &sample, "sample://sample-0", "zero") // labels may be those of machines, which are not known yet
}
