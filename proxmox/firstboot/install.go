package firstboot

import (
	"cmp"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Install says how RKE2 or k3s gets onto a machine.
type Install struct {
	// From is "template", where the binary and the agent's unit are in the machine's template
	// already, or "script"; empty is template.
	From string `json:"from,omitempty"`
	// Script is the address of the install script; empty is the project's own.
	Script string `json:"script,omitempty"`
	// Version, such as v1.34.1+rke2r1, or Channel, such as v1.34, says what is installed. One of
	// them must, or nodes of one pool would differ.
	Version string `json:"version,omitempty"`
	Channel string `json:"channel,omitempty"`
	// Env are further variables of the script, such as those that name a mirror or the folder
	// of an air-gapped installation's artifacts.
	Env map[string]string `json:"env,omitempty"`
}

func (in *Install) given() bool {
	return in.From != "" || in.Script != "" || in.Version != "" || in.Channel != "" || len(in.Env) > 0
}

const (
	fromTemplate = "template"
	fromScript   = "script"
)

// ownEnv are the variables that the profile sets.
var ownEnv = []string{
	"INSTALL_RKE2_TYPE", "INSTALL_RKE2_EXEC", "INSTALL_RKE2_VERSION", "INSTALL_RKE2_CHANNEL",
	"INSTALL_K3S_EXEC", "INSTALL_K3S_VERSION", "INSTALL_K3S_CHANNEL", "INSTALL_K3S_SKIP_ENABLE", "INSTALL_K3S_NAME",
	"K3S_URL", "K3S_TOKEN", "K3S_TOKEN_FILE", "RKE2_URL", "RKE2_TOKEN",
}

var (
	channelName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	envName     = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*$`)
)

func (in *Install) check(f *faults, kind Kind) {
	agent, ok := agents[kind]
	if !ok {
		return // reported already that it is not meant
	}
	if !oneOf(f, "install.from", in.From, "", fromTemplate, fromScript) {
		return
	}
	if in.From != fromScript {
		rest := *in
		rest.From = ""
		f.must(!rest.given(), "install.from", "must be script where there is a script, version, channel or env", in.From)
		return
	}
	if in.Script != "" {
		u, err := url.Parse(in.Script)
		f.must(err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && printable(in.Script),
			"install.script", "must be the address of a script that begins with https://, for what it says is run by root", address(in.Script))
	}
	f.must((in.Version == "") != (in.Channel == ""), "install", "must have either version or channel", bothOrNeither(in.Version != ""))
	if in.Version != "" {
		f.must(agent.version.MatchString(in.Version), "install.version", "must be a version of "+string(kind)+" such as "+agent.sample, in.Version)
	}
	if in.Channel != "" {
		f.must(channelName.MatchString(in.Channel), "install.channel", "must be a channel such as stable or v1.34", in.Channel)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		path := under("install.env", name)
		f.must(envName.MatchString(name), path, "must be the name of a variable, in capitals", name)
		f.must(!slices.Contains(ownEnv, name), path, "must not be a variable that the profile sets", name)
		f.must(printable(in.Env[name]), path, "must be one line of text", hidden(in.Env[name]))
	}
}

func bothOrNeither(both bool) words {
	if both {
		return "both"
	}
	return "neither"
}

const joinScript = "/var/lib/plimsoll/join.sh"

// script installs an agent and starts it. The steps are one script so that what fails ends it.
func (in *Install) script(kind Kind) string {
	agent := agents[kind]
	vars := map[string]string{}
	maps.Copy(vars, in.Env)
	maps.Copy(vars, agent.env)
	if in.Version != "" {
		vars[agent.prefix+"VERSION"] = in.Version
	} else {
		vars[agent.prefix+"CHANNEL"] = in.Channel
	}
	address := cmp.Or(in.Script, agent.script)
	var b strings.Builder
	b.WriteString("#!/bin/sh\nset -eu\n")
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		b.WriteString("export " + name + "=" + shellQuote(vars[name]) + "\n")
	}
	// Not into a pipe: a shell runs the half of a script whose other half did not come.
	b.WriteString("script=$(mktemp)\n")
	b.WriteString("curl -fsSL --retry 10 --retry-delay 6 --retry-connrefused -o \"$script\" " + shellQuote(address) + "\n")
	b.WriteString("sh \"$script\"\n")
	b.WriteString("rm -f \"$script\"\n")
	b.WriteString(strings.Join(start(kind), " ") + "\n")
	return b.String()
}

// shellQuote writes a word for sh.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
