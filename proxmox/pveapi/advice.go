package pveapi

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// advice is what fixes an error of a class, with the command where there is one. Words in capitals
// are filled in by the reader, and those in braces by the error.
var advice = map[Class]string{
	Unauthorized: "the server does not accept the token: see whether it is there and has not expired (pveum user token list {user}), " +
		"and write a new one into the token file; it is picked up without a restart",
	Certificate: "compare the fingerprint with the one that the host itself shows (pvenode cert info): " +
		"another one is a renewed certificate, or an intercepted connection",
	NoEndpoint:      "see whether the hosts are up, and whether {endpoint} is reached from here",
	HostUnreachable: "the host is down, off the cluster's network, or its pvedaemon has stopped: systemctl status pvedaemon on that host",
	NoQuorum:        "the host that was asked has no quorum: see pvecm status and the cluster's network; nothing is changed until it is back",
	NoHost:          "name a host of the cluster: pvecm nodes",
	NoPool:          "make the pool: pveum pool add POOL",
	NoStorage:       "name a storage that is there and enabled on that host: pvesm status",
	NoBridge:        "make the bridge on that host, or name one that is there: pvesh get /nodes/HOST/network --type any_bridge",
	NoVolume:        "name a volume that is there: pvesm list {storage}",
	StorageFull:     "make room on storage {storage}, or name another one: pvesm status",
	StorageLock:     "too many disks are made at a time on storage {storage}: lower the limit of clones per storage",
	MemoryFull:      "the host has less memory than was promised on it: lower its overcommit, or move machines away",
	Locked:          "the machine is locked; if no task works on it any more, a person may unlock it: qm unlock VMID",
	Protected:       "the machine's protection is on: qm set VMID --protection 0",
	HAManaged:       "the machine belongs to the HA manager: ha-manager remove vm:VMID",
	InUse:           "linked clones use this disk: it cannot go before they have gone",
	AgentSilent:     "the guest agent is not up yet, or not installed: qemu-guest-agent belongs in the template",
	NoAgent:         "switch the guest agent on in the template: qm set VMID --agent 1",
	Unsupported:     "this server, storage or machine cannot do that, as the text says",
}

// Advice returns one plain sentence on what fixes it; empty where no one knows, or nothing is to be
// done but to look again.
func (e *Error) Advice() string {
	class := e.Class()
	switch {
	case class == Forbidden:
		return e.adviseForbidden()
	case class == Unanswered && !e.Retryable():
		return "it may or may not have been done: look before it is done again"
	}
	return strings.NewReplacer(
		"{user}", known(e.user(), "USER@REALM"),
		"{endpoint}", cmp.Or(e.Endpoint, "each endpoint"),
		"{storage}", known(e.Storage, "STORAGE"),
	).Replace(advice[class])
}

// adviseForbidden names the privilege, and the line that grants it to the token and, because a
// privilege-separated token has no more than its user, to the user.
func (e *Error) adviseForbidden() string {
	switch {
	case strings.Contains(e.Text(), "nly root "):
		return "root@pam alone may do this, and no token, not even root's own"
	case saysNoPool.MatchString(e.Text()):
		return advice[NoPool]
	case e.Privilege == "" || e.ACLPath == "":
		return "the token may not do this, and the server does not say what it lacks: plimsoll doctor names it"
	}
	privilege, _, _ := strings.Cut(e.Privilege, "|")
	role := RoleOf(privilege, e.ACLPath)
	return fmt.Sprintf("the token lacks %s on %s: pveum role add %s --privs %s 2>/dev/null || pveum role modify %s --privs %s --append 1; "+
		"pveum acl modify %s --users %s --tokens %s --roles %s",
		e.Privilege, e.ACLPath, role, privilege, role, privilege, Shell(e.ACLPath),
		known(e.user(), "USER@REALM"), known(e.TokenID, "USER@REALM!TOKEN"), role)
}

// user is whose token it is.
func (e *Error) user() string {
	user, _, _ := strings.Cut(e.TokenID, "!")
	return user
}

// known is a word for a shell, or one in capitals where it is not known.
func known(word, unknown string) string {
	if word == "" {
		return unknown
	}
	return Shell(word)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Shell is words as a POSIX shell reads them again, quoted where it needs that.
func Shell(words ...string) string {
	var line []string
	for _, w := range words {
		if !plainWord.MatchString(w) {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		line = append(line, w)
	}
	return strings.Join(line, " ")
}

// Advice returns what can be done about errors of the class.
func (c Class) Advice() string { return (&Error{class: c}).Advice() }
