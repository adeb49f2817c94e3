package pve

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// attempt orders a machine and waits until it has joined or failed; one that failed is released. It
// reports which host it was on, and whether it joined.
func (w *world) attempt(host string) (on string, joined bool) {
	w.t.Helper()
	name := w.mustOrder(host)
	w.until("it has joined or failed", 15*time.Minute, func() bool {
		p := w.phase(name)
		return p == nodescaler.Joined || p == nodescaler.Failed
	})
	m := w.machine(name)
	if m.Phase == nodescaler.Failed {
		must.Do(w.t, w.fleet.Delete(w.t.Context(), name))
	}
	return m.Host, m.Phase == nodescaler.Joined
}

// The host whose machines fail has fewest of them and the most memory left, and would get each next
// one until the pool is paused.
func TestAHostWhoseMachinesFailIsPassedOver(t *testing.T) {
	w := newWorld(t, plan{hosts: 3, seed: 1}).begin()
	w.inject("fail start on=pve1")
	w.run(time.Second)
	joined, failed := map[string]int{}, 0
	for range 7 {
		switch host, ok := w.attempt(""); {
		case ok:
			joined[host]++
		case host != "pve1":
			t.Fatalf("one failed on %s", host)
		default:
			failed++
		}
		if r := w.fleet.Paused()["web"]; r.Code == pvecode.PoolPaused {
			t.Fatalf("the pool is paused: %s", r.Text)
		}
		w.run(2 * time.Minute)
	}
	if joined["pve2"] < 2 || joined["pve3"] < 2 || failed > 3 {
		t.Errorf("joined %v, %d failed", joined, failed)
	}
}

// Orders that name a host do so by the list that says what is refused.
func TestAHostThatRestsIsListedAsRefused(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.inject("fail start on=pve1 for=10m")
	w.run(time.Second)
	if host, ok := w.attempt("pve1"); ok {
		t.Fatalf("it joined on %s", host)
	}
	w.run(2 * time.Minute) // as long as the pool backs off
	refused := must.Get(w.fleet.List(t.Context()))(t).Refused["web"]
	if len(refused) != 1 || refused[0].Host != "pve1" || refused[0].Why.Code != placement.CodeHostFailing {
		t.Errorf("refused are %+v", refused)
	}
	if name, err := w.order("pve1"); err == nil {
		t.Errorf("%s was taken", name)
	}
	w.run(10 * time.Minute)
	if host, ok := w.attempt("pve1"); !ok {
		t.Errorf("none joined on %s after its rest", host)
	}
}

// A person who has repaired a host need not wait: what failed before the pool was resumed counts no
// more, neither for its hosts nor for the pool itself. What fails later does.
func TestAResumedPoolTriesItsHostsAgain(t *testing.T) {
	for name, resume := range map[string]func(*world) error{
		"by its configuration": func(w *world) error {
			p := *w.pool()
			p.Resumed = w.now()
			return w.fleet.Configure([]settings.Pool{p}, nil)
		},
		"by a call": func(w *world) error { return w.fleet.Resume("web") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
			w.inject("fail start on=pve1")
			w.run(time.Second)
			closed := func() string {
				text := ""
				for _, r := range must.Get(w.fleet.List(t.Context()))(t).Refused["web"] {
					text += r.Why.Code + ": " + r.Why.Text + "; "
				}
				return text + w.fleet.Paused()["web"].Code
			}
			_, _ = w.attempt("pve1")
			w.mustSay(closed(), placement.CodeHostFailing, pvecode.PoolBackingOff)
			must.Do(t, resume(w))
			if text := closed(); text != "" {
				t.Errorf("resumed, it is closed: %s", text)
			}
			w.run(time.Second)
			_, _ = w.attempt("pve1")
			w.mustSay(closed(), placement.CodeHostFailing, "1 machine failed there", pvecode.PoolBackingOff)
		})
	}
}

// Each failure within an hour and a half of the last one doubles the rest.
func TestRestsOfAHostGetLonger(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 1}).begin()
	w.inject("fail start on=pve1")
	w.run(time.Second)
	for _, rest := range []time.Duration{5, 10, 20, 30, 30} {
		if _, ok := w.attempt("pve1"); ok {
			t.Fatal("one joined")
		}
		resting := func() bool { return len(must.Get(w.fleet.List(t.Context()))(t).Refused["web"]) > 0 }
		if w.run(rest*time.Minute - 30*time.Second); !resting() {
			t.Errorf("it does not rest for %d minutes", rest)
		}
		if w.run(time.Minute); resting() {
			t.Errorf("it rests for more than %d minutes", rest)
		}
		_, _ = w.attempt("pve2") // so that the pool does not back off
		w.run(time.Minute)
	}
}

func TestHostsThatAllFailPauseTheirPool(t *testing.T) {
	for name, c := range map[string]struct {
		fault  string
		full   bool
		second string
	}{
		"all of them":              {"fail start", false, "pve2"},
		"two of three":             {"fail start on=pve1\nfail start on=pve2", false, "pve2"},
		"one, and others are full": {"fail start on=pve1", true, "pve1"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, plan{hosts: 3, seed: 1})
			if c.full {
				w.pool().Placement.MaxPerHost = 1
			}
			w.begin()
			w.inject(c.fault)
			w.run(time.Second)
			if c.full {
				w.join("pve2", "pve3")
			}
			for _, host := range []string{"pve1", c.second, "pve1"} {
				if _, ok := w.attempt(host); ok {
					t.Fatal("one joined")
				}
				w.run(6 * time.Minute)
			}
			if r := w.fleet.Paused()["web"]; r.Code != pvecode.PoolPaused {
				t.Errorf("it is %q: %s", r.Code, r.Text)
			}
		})
	}
}
