package pvesim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/engine"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// lab is a cluster of three hosts with a template on shared storage, and one who may everything.
type lab struct {
	testing.TB
	*Cluster
	root  string
	entry string
}

func newLab(t testing.TB, change func(*world.Config)) *lab {
	t.Helper()
	at := func(d time.Duration) timing.Range { return timing.Range{Min: d, Max: d} }
	c := newCluster(t, func(cfg *world.Config) {
		cfg.Storages[0].Content = []string{"images", "iso", "snippets"}
		cfg.Storages = append(cfg.Storages, world.Storage{Name: "local", Type: "dir", Total: 100 << 30, Content: []string{"images", "iso"}})
		cfg.VMs = []world.VM{
			{ID: 9000, Host: "pve1", Template: true, Storage: "shared", Disk: 8 << 30, Config: map[string]string{"name": "tmpl", "agent": "1"}},
			{ID: 201, Host: "pve1", Running: true, Storage: "shared", Disk: 8 << 30, Config: map[string]string{"name": "worker", "agent": "1"}},
			{ID: 301, Host: "pve3", Running: true, Storage: "shared", Disk: 8 << 30, Config: map[string]string{"name": "far", "onboot": "1"}},
		}
		cfg.Times = timing.Machine{Clone: at(4 * time.Second), Boot: at(20 * time.Second), Delete: at(2 * time.Second)}
		if change != nil {
			change(cfg)
		}
	})
	return &lab{TB: t, Cluster: c, root: c.Token("root@pam", "t1", false), entry: "pve1"}
}

// inject puts faults in.
func (l *lab) inject(text string) {
	l.Helper()
	all, err := faults.Parse(text)
	if err != nil {
		l.Fatal(err)
	}
	for _, f := range all {
		if err := l.Cluster.Inject(f); err != nil {
			l.Fatal(err)
		}
	}
}

// said is how a call ended.
type said struct {
	status string // "200 OK", or the error of a connection that broke
	data   any
	took   time.Duration
}

// tell makes a call of the form "PUT /path key=value key=value", which is over before others are.
func (l *lab) tell(line string) said {
	l.Helper()
	return l.send(l.request(line))
}

func (l *lab) send(req *http.Request) said {
	l.Helper()
	before := l.Now()
	resp, err := l.Transport().RoundTrip(req)
	s := said{took: l.Now().Sub(before)}
	if err != nil {
		s.status = err.Error()
		return s
	}
	s.status = resp.Status
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		l.Fatal(err)
	}
	var answer struct{ Data any }
	if len(body) > 0 {
		if err := json.Unmarshal(body, &answer); err != nil {
			l.Fatalf("%s: %s: %v", req.URL, body, err)
		}
	}
	s.data = answer.Data
	return s
}

func (l *lab) request(line string) *http.Request {
	words := strings.Fields(line)
	form := url.Values{}
	for _, pair := range words[2:] {
		key, value, _ := strings.Cut(pair, "=")
		form.Set(key, value)
	}
	req, err := http.NewRequest(words[0], "https://"+l.entry+":8006/api2/json"+words[1], strings.NewReader(form.Encode()))
	if err != nil {
		l.Fatal(err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+l.root)
	if len(form) > 0 {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return req
}

// together makes calls at the same moment, and lets time pass until all are over.
func (l *lab) together(lines ...string) []said {
	l.Helper()
	all := make([]said, len(lines))
	left := len(lines)
	l.With(func() {
		for i, line := range lines {
			req := l.request(line)
			r, err := readRequest(req)
			if err != nil {
				l.Fatal(err)
			}
			began := l.Clock
			l.Start(func(p *engine.Process) {
				answer := l.serveAndLog(p, l.Node(l.entry), r)
				all[i] = said{status: fmt.Sprintf("%d %s", answer.status, answer.reason), took: l.Clock.Sub(began)}
				left--
			})
		}
	})
	for range 600 {
		if left == 0 {
			return all
		}
		l.Advance(time.Second)
	}
	l.Fatalf("%d calls are not over", left)
	return nil
}

// must makes a call that succeeds, and returns its data.
func (l *lab) must(line string) any {
	l.Helper()
	s := l.tell(line)
	if s.status != "200 OK" {
		l.Fatalf("%s: %s", line, s.status)
	}
	return s.data
}

// ended lets time pass until the task is over that a call starts, and returns its end.
func (l *lab) ended(line string) string {
	l.Helper()
	upid, _ := l.must(line).(string)
	return l.endOf(upid)
}

func (l *lab) endOf(upid string) string {
	l.Helper()
	for range 600 {
		for _, h := range l.Nodes {
			if t := h.Task(upid); t != nil && !t.Running() {
				return t.Exit
			}
		}
		l.Advance(time.Second)
	}
	l.Fatalf("task %s does not end", upid)
	return ""
}

// find looks for an entry by its id in a list.
func (l *lab) find(line, id string) map[string]any {
	l.Helper()
	all, _ := l.must(line).([]any)
	for _, e := range all {
		if e := e.(map[string]any); e["id"] == id || e["volid"] == id || e["storage"] == id {
			return e
		}
	}
	return nil
}
