package guests

import (
	"bufio"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// talks listens at a socket, says a greeting, and answers each line that holds a word with a text.
func talks(t *testing.T, greeting string, answers ...[2]string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
		_, _ = fmt.Fprint(conn, greeting)
		for in := bufio.NewScanner(conn); in.Scan(); {
			for _, a := range answers {
				if strings.Contains(in.Text(), a[0]) {
					number, _, _ := strings.Cut(in.Text()[strings.LastIndex(in.Text(), ":")+1:], "}")
					_, _ = fmt.Fprint(conn, strings.ReplaceAll(a[1], "ID", number))
				}
			}
		}
	}()
	return socket
}

func TestMonitorsAreAsked(t *testing.T) {
	const hello, ready = `{"QMP": {"version": {}}}` + "\n", `{"return": {}}` + "\n"
	for name, c := range map[string]struct{ says, want, wrong string }{
		"an answer":        {`{"return": {"status": "running"}}` + "\n", `{"status": "running"}`, ""},
		"an event before":  {`{"event": "RESET"}` + "\n" + `{"return": {}}` + "\n", `{}`, ""},
		"a refusal":        {`{"error": {"class": "GenericError", "desc": "no such device"}}` + "\n", "", "no such device"},
		"no JSON":          {"hm\n", "", "the answer is no JSON"},
		"one without ends": {`{"return"`, "", "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			socket := talks(t, hello, [2]string{"qmp_capabilities", ready}, [2]string{"query-status", c.says})
			got, err := askMonitor(socket, time.Second/4, "query-status", nil)
			if string(got) != c.want || (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
}

// The answers to what was asked before, and was not waited for, are skipped.
func TestAgentsAreAsked(t *testing.T) {
	const stale = `{"return": {"pid": 1}}` + "\n" + "\xff" + `{"return": 12}` + "\n"
	for name, c := range map[string]struct{ before, want string }{
		"nothing before": {"", `{"pid": 2}`},
		"stale answers":  {stale, `{"pid": 2}`},
		"half of one":    {`{"return": {"pi`, `{"pid": 2}`},
	} {
		t.Run(name, func(t *testing.T) {
			socket := talks(t, "", [2]string{"guest-sync-delimited", c.before + "\xff" + `{"return": ID}` + "\n"}, [2]string{"guest-exec", `{"return": {"pid": 2}}` + "\n"})
			if got, err := askAgent(socket, patience, "guest-exec", nil); string(got) != c.want || err != nil {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	if _, err := askAgent(talks(t, ""), time.Second/4, "guest-ping", nil); err == nil {
		t.Error("an agent that says nothing was heard")
	}
}
