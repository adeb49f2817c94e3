package pvesim

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConsoleDoesWhatPeoplePaste(t *testing.T) {
	c := newCluster(t, nil)
	k := c.Console()
	for _, line := range []string{
		"pvesh get /pools/k8s >/dev/null 2>&1 || pveum pool add k8s --comment 'Machines of mine'",
		"pveum user add auto@pve --comment Plimsoll",
		"pveum role add Reader --privs VM.Audit,Pool.Audit 2>/dev/null || pveum role modify Reader --privs VM.Audit",
		"pveum role add Reader --privs VM.Audit 2>/dev/null || pveum role modify Reader --privs VM.Audit",
		"pveum user token add auto@pve t1 --privsep 1",
		"pveum acl modify /pool/k8s --users auto@pve --tokens 'auto@pve!t1' --roles Reader --propagate 0",
	} {
		if err := k.Run(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, body := ask(t, c, k.Tokens["auto@pve!t1"], "GET", "/access/permissions?path=/pool/k8s", ""); body != `{"data":{"/pool/k8s":{"VM.Audit":0}}}` {
		t.Errorf("the token may do %s", body)
	}
	for line, want := range map[string]string{
		"pveum pool add k8s":             "already exists",
		"pveum role modify No --privs x": "invalid privilege",
		"rm -rf /":                       "no such command here",
		"pveum pool add":                 "no such command here",
		"pveum pool add $(id)":           "'$'",
		"pveum pool add 'k8s":            "not closed",
		"pveum user add a!b@pve":         "'!'",
		"pvesh get /nope":                "not implemented",
		"pvesh get /a || pvesh get /b":   "/b",
	} {
		if err := k.Run(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
	words, err := shellWords("a 'b c' d'e'f '' 2>&1 >x 2>/dev/null")
	if diff := cmp.Diff([]string{"a", "b c", "def", ""}, words); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
