package pvesim

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/reference"
)

// What was seen of the real server's connections holds of the emulator's: where plain HTTP is sent,
// how long a connection is kept, for how many requests, and that none gets lost.
func TestRecordedConnections(t *testing.T) {
	records, err := reference.Recordings(knownOf(t, "transcripts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, r := range records {
		switch {
		case r.Out != "":
			plainHTTPIsAnswered(t, r.Out)
		case r.Second != nil:
			var idle int
			if _, err := fmt.Sscanf(r.Note, "keep-alive, idle %ds", &idle); err != nil {
				t.Fatal(err)
			}
			connectionIsKept(t, time.Duration(idle)*time.Second, *r.Second != "")
		case r.N != 0:
			if n := answersOnOneConnection(t); n != r.N {
				t.Errorf("%d requests were answered on one connection, recorded %d", n, r.N)
			}
		case r.Dropped != nil:
			if lost := lostOf(t, 2500); lost != *r.Dropped {
				t.Errorf("%d of 2500 requests were lost, recorded %d", lost, *r.Dropped)
			}
		default:
			continue
		}
		compared++
	}
	if compared != 6 {
		t.Errorf("%d observations were compared, want 6", compared)
	}
}

// plainHTTPIsAnswered compares an answer with the recorded one: its status line, what headers it
// has, and its body.
func plainHTTPIsAnswered(t *testing.T, recorded string) {
	addr, _ := serve(t, newCluster(t, nil), "pve1")
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, "GET /api2/json/version HTTP/1.1\r\nHost: 10.99.0.1:8006\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	want, have := outline(recorded), outline(strings.ReplaceAll(string(got), "\r\n", "\n"))
	if !slices.Equal(want, have) {
		t.Errorf("plain HTTP is answered %q, recorded %q", have, want)
	}
}

// outline is an answer without the values that differ from one to the next.
func outline(answer string) []string {
	var all []string
	head, body, _ := strings.Cut(answer, "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		name, _, _ := strings.Cut(line, ": ")
		if slices.Contains([]string{"Date", "Expires", "Connection"}, name) {
			line = name
		}
		all = append(all, line)
	}
	slices.Sort(all[1:])
	return append(all, body)
}

const versionRequest = "GET /api2/json/version HTTP/1.1\r\nHost: pve1\r\nAuthorization: PVEAPIToken="

func connectionIsKept(t *testing.T, idle time.Duration, kept bool) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		root := c.Token("root@pam", "t1", false)
		conn, r := talk(t, c)
		for i := range 2 {
			_, err := say(conn, r, versionRequest+root)
			if (err == nil) != (i == 0 || kept) {
				t.Errorf("request %d, after %s: %v, recorded that the connection is kept: %t", i+1, idle, err, kept)
			}
			time.Sleep(idle)
		}
	})
}

func answersOnOneConnection(t *testing.T) int {
	c := newCluster(t, nil)
	root := c.Token("root@pam", "t1", false)
	conn, r := talk(t, c)
	n := 0
	for ; n < 1000; n++ {
		if _, err := say(conn, r, versionRequest+root); err != nil {
			break
		}
	}
	return n
}

// lostOf makes requests one after the other, each on a connection that is kept as long as it is.
func lostOf(t *testing.T, n int) int {
	c := newCluster(t, nil)
	root := c.Token("root@pam", "t1", false)
	lost := 0
	var conn net.Conn
	var r *bufio.Reader
	for i := range n {
		if i%world.KeepAliveCalls == 0 {
			conn, r = talk(t, c)
		}
		if status, err := say(conn, r, versionRequest+root); err != nil || status != "200 OK" {
			lost++
		}
	}
	return lost
}
