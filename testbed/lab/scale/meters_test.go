//go:build lab

package scale

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// soon is how long something is waited for that is to come at once.
const soon = 2 * time.Minute

// clones are when clones were asked for, by the clock.
type clones struct {
	mu sync.Mutex
	at []time.Time
}

func (c *clones) saw(call pvesim.Call) {
	if call.Method != http.MethodPost || !strings.HasSuffix(call.Path, "/clone") {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, time.Now())
}

// after is the first after a time.
func (c *clones) after(tb testing.TB, t time.Time) time.Time {
	tb.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		c.mu.Lock()
		for i := len(c.at) - 1; i >= 0 && c.at[i].After(t); i-- {
			if i == 0 || !c.at[i-1].After(t) {
				defer c.mu.Unlock()
				return c.at[i]
			}
		}
		c.mu.Unlock()
	}
	tb.Fatal("no clone was asked for")
	return time.Time{}
}

// lines reads a file that is being written, line by line.
type lines struct {
	*os.File
	rest []byte
}

// next returns the next whole line, or nil as long as no line is whole.
func (l *lines) next(tb testing.TB) []byte {
	tb.Helper()
	for {
		if i := bytes.IndexByte(l.rest, '\n'); i >= 0 {
			line := l.rest[:i]
			l.rest = l.rest[i+1:]
			return line
		}
		more := make([]byte, 1<<20)
		n, err := l.Read(more)
		if err != nil && !errors.Is(err, io.EOF) {
			tb.Fatal(err)
		}
		if n == 0 {
			return nil
		}
		l.rest = append(l.rest, more[:n]...)
	}
}

// follow reads what is written to a file from now on.
func follow(tb testing.TB, file string) *lines {
	tb.Helper()
	f := must.Get(os.Open(file))(tb)
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		tb.Fatal(err)
	}
	return &lines{File: f}
}

// unschedulable waits until the scheduler has written that a pod fits nowhere, and returns when the
// API server was asked to write that.
func (l *lines) unschedulable(tb testing.TB, pod string) time.Time {
	tb.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); {
		line := l.next(tb)
		if line == nil {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if !bytes.Contains(line, []byte(pod)) {
			continue
		}
		var e struct {
			Verb                     string
			User                     struct{ Username string }
			ObjectRef                struct{ Resource, Subresource, Name string }
			RequestReceivedTimestamp time.Time
		}
		if err := json.Unmarshal(line, &e); err != nil {
			tb.Fatal(err)
		}
		if e.Verb == "patch" && e.User.Username == "system:kube-scheduler" && e.ObjectRef.Subresource == "status" && e.ObjectRef.Name == pod {
			return e.RequestReceivedTimestamp
		}
	}
	tb.Fatalf("the scheduler has not said that %s fits nowhere", pod)
	return time.Time{}
}

// journal is when Plimsoll's steps began, and what the last one saw.
type journal struct {
	mu    sync.Mutex
	steps []time.Time
	last  struct{ Nodes, Pods int }
}

// read reads the journal from its beginning, as long as the test runs. It calls visit with each
// step.
func (j *journal) read(tb testing.TB, file string, visit func()) {
	var f *os.File
	for ; f == nil; time.Sleep(20 * time.Millisecond) {
		if tb.Context().Err() != nil {
			return
		}
		f, _ = os.Open(file) // it is made with the first step
	}
	defer f.Close() //nolint:errcheck // it was read
	for l := (&lines{File: f}); tb.Context().Err() == nil; {
		line := l.next(tb)
		if line == nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		var s struct {
			Time     time.Time
			Observed struct{ Nodes, Pods int }
		}
		if err := json.Unmarshal(line, &s); err != nil {
			tb.Error(err)
			return
		}
		j.mu.Lock()
		j.steps, j.last = append(j.steps, s.Time), s.Observed
		j.mu.Unlock()
		visit()
	}
}

// after is when the first step after a time began.
func (j *journal) after(tb testing.TB, t time.Time) time.Time {
	tb.Helper()
	for end := time.Now().Add(soon); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		j.mu.Lock()
		for i := len(j.steps) - 1; i >= 0 && j.steps[i].After(t); i-- {
			if i == 0 || !j.steps[i-1].After(t) {
				defer j.mu.Unlock()
				return j.steps[i]
			}
		}
		j.mu.Unlock()
	}
	tb.Fatal("no step was made")
	return time.Time{}
}

// page is what Plimsoll says of itself: its series without labels, and those with as they are
// written.
type page map[string]float64

// readPage reads a page of metrics.
func readPage(url string) (page, error) {
	answer, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close() //nolint:errcheck // it was read
	p := page{}
	for text := bufio.NewScanner(answer.Body); text.Scan(); {
		series, value, ok := strings.Cut(text.Text(), " ")
		if !ok || strings.HasPrefix(series, "#") {
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			p[series] = v
		}
	}
	if len(p) == 0 {
		return nil, fmt.Errorf("%s has no series", url)
	}
	return p, nil
}

// process is what Linux says of a process: its memory now and at most in bytes, and the CPU time it
// has used.
type process struct {
	rss, peak float64
	cpu       time.Duration
}

// ticks are the parts of a second that Linux counts CPU time in.
const ticks = 100

func readProcess(tb testing.TB, pid int) process {
	tb.Helper()
	read := func(name string) string {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
		if err != nil {
			tb.Fatalf("only Linux tells what a process takes: %v", err)
		}
		return string(text)
	}
	var p process
	for line := range strings.Lines(read("status")) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kilobytes, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "VmRSS:":
			p.rss = kilobytes * 1024
		case "VmHWM:":
			p.peak = kilobytes * 1024
		}
	}
	stat := read("stat")
	f := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // its name may hold anything
	for _, at := range []int{11, 12} {
		n := must.Get(strconv.ParseInt(f[at], 10, 64))(tb)
		p.cpu += time.Duration(n) * time.Second / ticks
	}
	return p
}
