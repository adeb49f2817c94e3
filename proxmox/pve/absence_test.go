package pve

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
)

// departed shows a cluster that host pve3 was taken out of, with pvecm delnode and its files
// removed.
type departed struct {
	way    http.RoundTripper
	left   bool // it is no member any more
	kept   bool // its machines' files are still there
	miscut bool // the cluster still counts it
}

func (d *departed) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.left && strings.HasSuffix(r.URL.Path, "/cluster/nextid") && !d.kept {
		text := `{"data":"` + r.URL.Query().Get("vmid") + `"}`
		return &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
	}
	a, err := d.way.RoundTrip(r)
	if err != nil || !d.left || !strings.HasSuffix(r.URL.Path, "/cluster/status") && !strings.HasSuffix(r.URL.Path, "/cluster/resources") {
		return a, err
	}
	var body struct {
		Data []map[string]any `json:"data"`
	}
	if err := json.NewDecoder(a.Body).Decode(&body); err != nil {
		return nil, err
	}
	_ = a.Body.Close()
	body.Data = slices.DeleteFunc(body.Data, func(f map[string]any) bool {
		return f["node"] == "pve3" || f["type"] == "node" && f["name"] == "pve3"
	})
	for _, f := range body.Data {
		if n, counts := f["nodes"].(float64); counts && !d.miscut {
			f["nodes"] = n - 1
		}
	}
	text, err := json.Marshal(body)
	a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	return a, err
}

// departing is a world whose host pve3 can leave.
func departing(t *testing.T) (*world, *departed) {
	t.Helper()
	w, d := newWorld(t, plan{hosts: 3, seed: 1}), &departed{}
	w.wrap = func(way http.RoundTripper) http.RoundTripper {
		d.way = way
		return d
	}
	w.pool().Max = 3
	w.begin()
	w.run(time.Second)
	return w, d
}

// dark lets a machine's node be ready no more.
func (w *world) dark(name string) {
	for i := range w.joins {
		if w.joins[i].node.Name == name {
			w.joins[i].node.Ready = false
		}
	}
}

func TestMachinesOfAHostThatLeftAreGone(t *testing.T) {
	w, d := departing(t)
	names := w.join("pve3", "pve3", "pve3")
	w.inject("slow shutdown by=1h")
	w.giveBack(names[0])
	w.run(5 * time.Second) // and its shutdown is waited for
	if w.fleet.roster.machines[strings.TrimPrefix(names[0], "web-")].Task == nil {
		t.Fatal("no task is waited for")
	}
	d.left = true
	w.giveBack(names[1])
	for _, n := range names {
		w.dark(n)
	}
	w.run(14 * time.Minute)
	if w.phase(names[0]) != nodescaler.Deleting || w.phase(names[1]) != nodescaler.Deleting || w.phase(names[2]) != nodescaler.Joined {
		t.Errorf("something is gone before it is known that the host left for good\n%s", w.story())
	}
	w.run(30 * time.Minute)
	if w.phase(names[0]) != "" || w.phase(names[1]) != "" || w.phase(names[2]) != nodescaler.Failed {
		t.Errorf("what was reclaimed is not gone, or the other has not failed\n%s", w.story())
	}
	w.mustSay(w.machine(names[2]).Problem, pvecode.Vanished)
	w.giveBack(names[2])
	w.run(2 * time.Hour)
	if len(w.joins) != 0 || len(w.fleet.roster.machines) != 0 {
		t.Errorf("left are the nodes %v and the intents %v", w.joins, w.fleet.roster.machines)
	}
	w.join("pve1", "pve1", "pve2") // there is room again
}

// A disc that lay on the host keeps nothing waiting.
func TestDiscsOfAHostThatLeftAreForgotten(t *testing.T) {
	w, d := departing(t)
	w.deaf = true
	name := w.mustOrder("pve3")
	w.until("it has started", 5*time.Minute, func() bool { return w.phase(name) == nodescaler.Booting })
	d.left = true
	w.giveBack(name)
	w.run(2 * time.Hour)
	if w.phase(name) != "" || len(w.fleet.roster.machines) != 0 {
		t.Errorf("left are the intents %+v", w.fleet.roster.machines)
	}
}

// What may still run is never taken for gone.
func TestMachinesThatMayRunAreNotGoneWithTheirHost(t *testing.T) {
	for name, change := range map[string]func(*world, *departed){
		"the host is offline":              func(w *world, d *departed) { d.left = false; w.inject("host pve3 down for=48h") },
		"its node is ready":                func(w *world, _ *departed) { w.joins[0].node.Ready = true },
		"nodes cannot be seen":             func(w *world, _ *departed) { w.blind = true },
		"the cluster counts the host":      func(_ *world, d *departed) { d.miscut = true },
		"its configuration is still there": func(_ *world, d *departed) { d.kept = true },
		"there is no quorum":               func(w *world, _ *departed) { w.inject("no quorum for=48h") },
	} {
		t.Run(name, func(t *testing.T) {
			w, d := departing(t)
			n := w.join("pve3")[0]
			d.left = true
			w.dark(n)
			change(w, d)
			w.giveBack(n)
			w.run(30 * time.Minute)
			if w.phase(n) != nodescaler.Deleting || w.told(pvecode.Gone) || w.told(pvecode.Vanished) || len(w.joins) != 1 {
				t.Errorf("it is %q\n%s", w.phase(n), w.story())
			}
		})
	}
}

// A host that is missing now and then, or comes back, has not left.
func TestAHostThatComesBackHasNotLeft(t *testing.T) {
	w, d := departing(t)
	n := w.join("pve3")[0]
	w.dark(n)
	for range 10 {
		d.left = true
		w.run(14 * time.Minute)
		d.left = false
		w.run(time.Minute)
	}
	w.sim.Advance(24 * time.Hour) // without a look
	d.left = true
	w.run(time.Minute)
	if w.phase(n) != nodescaler.Joined || w.told(pvecode.Vanished) {
		t.Errorf("it is %q\n%s", w.phase(n), w.story())
	}
}
