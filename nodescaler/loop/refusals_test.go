package loop

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// fussy is machines that refuse orders, and remember when and on which host they were asked.
type fussy struct {
	*house
	refuses map[string]error // by host
	asked   []string
	began   time.Time
}

func (f *fussy) create(o Order) error {
	f.asked = append(f.asked, fmt.Sprintf("%s of %s after %s", o.Action.Host, o.Action.Pool, o.At.Sub(f.began)))
	return f.refuses[o.Action.Host]
}

// first is a policy that orders one machine where its pools first make one, as one does that goes
// by the room of hosts.
func first(s *nodescaler.Snapshot) nodescaler.Plan {
	for i := range s.Pools {
		for j := range s.Hosts {
			p, h := &s.Pools[i], &s.Hosts[j]
			if len(s.Machines) == 1 && p.Closed == nil && p.Makes(small, h) {
				return nodescaler.Plan{Actions: []nodescaler.Action{{
					Kind: nodescaler.Buy, Order: nodescaler.OrderID(s.Now, 0), Pool: p.Name, Shape: &small, Host: h.Name, Reasons: why,
				}}}
			}
		}
	}
	return nodescaler.Plan{}
}

// plays makes steps for an hour and returns when what was asked for. In the middle something may
// change.
func (f *fussy) plays(t *testing.T, r *Runner, middle func()) []string {
	t.Helper()
	f.began = t0
	r.Machines = creating{f.house, f.create}
	r.Pools = append(r.Pools, nodescaler.Pool{Name: "zeb", Shapes: []pricing.Shape{small}, Max: 8})
	for i := range 360 {
		if i == 180 && middle != nil {
			middle()
		}
		must.Get(r.Once(t.Context(), t0.Add(time.Duration(i)*10*time.Second)))(t)
	}
	return f.asked
}

// creating is a house where orders go somewhere else.
type creating struct {
	*house
	create func(Order) error
}

func (c creating) Create(ctx context.Context, o Order) error {
	if err := c.create(o); err != nil {
		return err
	}
	return c.house.Create(ctx, o)
}

func TestWhatWasRefusedIsOrderedElsewhere(t *testing.T) {
	full, shut := fmt.Errorf("%w: StorageFull", ErrRefused), fmt.Errorf("%w: VMIDsExhausted", ErrPoolRefused)
	for _, c := range []struct {
		name    string
		refuses map[string]error
		want    []string
	}{
		{"no refusal", nil, []string{"pve1 of worker after 10s"}},
		{"a host", map[string]error{"pve1": full}, []string{"pve1 of worker after 10s", "pve2 of worker after 20s"}},
		{"all hosts of a pool, and then another's", map[string]error{"pve1": full, "pve2": full}, []string{
			"pve1 of worker after 10s", "pve2 of worker after 20s", "pve1 of zeb after 30s", "pve2 of zeb after 40s",
			"pve1 of worker after 2m10s", "pve2 of worker after 2m20s", "pve1 of zeb after 2m30s", "pve2 of zeb after 2m40s",
			"pve1 of worker after 6m10s", "pve2 of worker after 6m20s", "pve1 of zeb after 6m30s", "pve2 of zeb after 6m40s",
			"pve1 of worker after 14m10s", "pve2 of worker after 14m20s", "pve1 of zeb after 14m30s", "pve2 of zeb after 14m40s",
			"pve1 of worker after 30m10s", "pve2 of worker after 30m20s", "pve1 of zeb after 30m30s", "pve2 of zeb after 30m40s",
			"pve1 of worker after 46m10s", "pve2 of worker after 46m20s", "pve1 of zeb after 46m30s", "pve2 of zeb after 46m40s",
		}},
		{"a pool, on whichever host", map[string]error{"pve1": shut, "pve2": full}, []string{
			"pve1 of worker after 10s", "pve1 of zeb after 20s",
			"pve1 of worker after 2m10s", "pve1 of zeb after 2m20s", "pve1 of worker after 6m10s", "pve1 of zeb after 6m20s",
			"pve1 of worker after 14m10s", "pve1 of zeb after 14m20s", "pve1 of worker after 30m10s", "pve1 of zeb after 30m20s",
			"pve1 of worker after 46m10s", "pve1 of zeb after 46m20s",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fussy{house: newHouse().hosts(2), refuses: c.refuses}
			expect(t, "asked for", c.want, f.plays(t, f.runner(replicas(2), nodesSay(first)), nil))
		})
	}
}

// What was refused for an hour is had within the longest rest once it is not refused any more.
func TestARefusalIsForgotten(t *testing.T) {
	f := &fussy{house: newHouse(), refuses: map[string]error{"pve1": fmt.Errorf("%w: no room", ErrPoolRefused)}}
	asked := f.plays(t, f.runner(replicas(2), nodesSay(first)), func() { f.refuses = nil })
	if last := asked[len(asked)-1]; last != "pve1 of worker after 30m10s" || len(f.machines.Machines) != 2 {
		t.Errorf("the last of what was asked for is %q, and there are %d machines", last, len(f.machines.Machines))
	}
}

// A pool that was full is ordered from at once when one of its machines goes, though it was full
// for long.
func TestRefusalsAreForgottenWhenAMachineGoes(t *testing.T) {
	of := func(pool string, phases ...nodescaler.Phase) (all []nodescaler.Machine) {
		for _, p := range phases {
			all = append(all, nodescaler.Machine{Pool: pool, Phase: p})
		}
		return all
	}
	two, one := of("worker", nodescaler.Joined, nodescaler.Failed), of("worker", nodescaler.Joined)
	leaves := of("worker", nodescaler.Joined, nodescaler.Deleting)
	zebs := append(of("zeb", nodescaler.Joined), one...)
	for _, c := range []struct {
		name  string
		looks [][]nodescaler.Machine
		known int
	}{
		{"none", [][]nodescaler.Machine{two, two}, 1},
		{"one", [][]nodescaler.Machine{two, one}, 0},
		{"one is about to", [][]nodescaler.Machine{two, leaves}, 0},
		{"one that came later", [][]nodescaler.Machine{one, two, one}, 0},
		{"one that was about to", [][]nodescaler.Machine{leaves, one}, 1},
		{"another pool's", [][]nodescaler.Machine{zebs, one}, 1},
	} {
		a := order("b")
		m := Memory{}
		m.bought(&a, &Outcome{Refused: PoolRefused, Error: ErrPoolRefused.Error()}, t0)
		for _, machines := range c.looks {
			m.refused.see(machines)
		}
		if known := len(m.refused.now(t0.Add(time.Second))); known != c.known {
			t.Errorf("%s goes: %d pools are left alone, want %d", c.name, known, c.known)
		}
	}
}

func TestAPoolIsOrderedFromOnceAMachineHasGone(t *testing.T) {
	refuses := map[string]error{"pve1": fmt.Errorf("%w: PoolAtMax", ErrPoolRefused)}
	f := &fussy{house: newHouse(), refuses: refuses, began: t0}
	goes := f.machines.Machines[0]
	goes.Name, goes.Order, goes.Phase = "worker-b", "b", nodescaler.Failed
	f.machines.Machines = append(f.machines.Machines, goes)
	r := f.runner(replicas(2), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan {
		alone := *s
		alone.Machines = s.Machines[:1]
		return first(&alone)
	}))
	r.Machines = creating{f.house, f.create}
	steps(t, r, 3)
	f.machines.Machines = f.machines.Machines[:1]
	must.Get(r.Once(t.Context(), t0.Add(30*time.Second)))(t)
	expect(t, "asked for", []string{"pve1 of worker after 10s", "pve1 of worker after 30s"}, f.asked)
}

func TestARestartForgetsRefusals(t *testing.T) {
	f := &fussy{house: newHouse().hosts(2), refuses: map[string]error{"pve1": fmt.Errorf("%w: no room", ErrRefused)}, began: t0}
	for range 2 {
		r := f.runner(replicas(2), nodesSay(first))
		r.Machines = creating{f.house, f.create}
		steps(t, r, 3)
		f.machines.Machines = f.machines.Machines[:1]
	}
	again := []string{"pve1 of worker after 10s", "pve2 of worker after 20s"}
	expect(t, "asked for", slices.Concat(again, again), f.asked)
}

// A refusal is recorded as a reason, and the pools of the intent stay as they were.
func TestRefusalsAreInTheSnapshotOnly(t *testing.T) {
	f := &fussy{house: newHouse().hosts(2), refuses: map[string]error{"pve1": fmt.Errorf("%w: no room", ErrRefused)}}
	f.machines.Refused = map[string][]nodescaler.RefusedOrder{"worker": {{Host: "pve2", Why: why[0]}}, "zeb": {{Why: why[0]}}}
	var seen []nodescaler.Pool
	var journal [2]bytes.Buffer
	for i := range journal {
		r := f.runner(replicas(2), nodesSay(func(s *nodescaler.Snapshot) nodescaler.Plan { seen = s.Pools; return first(s) }))
		r.Journal = NewNDJSON(&journal[i])
		f.plays(t, r, nil)
		for _, p := range r.Pools {
			if p.Closed != nil || p.Refused != nil {
				t.Errorf("pool %s was written to: %+v", p.Name, p)
			}
		}
	}
	if len(seen) != 2 || len(seen[0].Refused) != 2 || seen[0].Refused[1].Why.Code != nodescaler.RefusedLately || seen[1].Closed == nil {
		t.Errorf("the policy saw %+v", seen)
	}
	if !bytes.Equal(journal[0].Bytes(), journal[1].Bytes()) {
		t.Error("the same refusals make two journals")
	}
}

// An order that was taken says of its own kind that it is had again, and that its pool is.
func TestWhatIsTakenIsRefusedNoMore(t *testing.T) {
	taken := order("b")
	refuse := func(pool string, s pricing.Shape, host string) rest {
		return rest{pool: pool, order: nodescaler.RefusedOrder{Shape: s, Host: host}}
	}
	large := pricing.Shape{Name: "large", CPU: 4000}
	others := []rest{refuse("zeb", small, "pve1"), refuse("zeb", pricing.Shape{}, ""), refuse("worker", large, "pve1"), refuse("worker", small, "pve2")}
	r := refusals(append(slices.Clone(others), refuse("worker", small, "pve1"), refuse("worker", pricing.Shape{}, "")))
	r.taken(&taken)
	if !slices.EqualFunc(others, r, func(a, b rest) bool {
		return a.pool == b.pool && a.order.Shape == b.order.Shape && a.order.Host == b.order.Host
	}) {
		t.Errorf("still refused: %+v", r)
	}
}

// What was refused counts twice as long again when it is refused within the longest rest after
// the last.
func TestHowLongRefusalsAreRemembered(t *testing.T) {
	a, refused := order("b"), &Outcome{Refused: OrderRefused, Error: ErrRefused.Error()}
	for _, c := range []struct {
		at         time.Duration
		now, known int
	}{{0, 1, 1}, {firstRest - 1, 1, 1}, {firstRest, 0, 1}, {firstRest + longestRest, 0, 1}, {firstRest + longestRest + 1, 0, 0}} {
		var r refusals
		r.note(&a, refused, t0)
		if now := len(r.now(t0.Add(c.at))["worker"]); now != c.now || len(r) != c.known {
			t.Errorf("after %s: %d are refused and %d known, want %d and %d", c.at, now, len(r), c.now, c.known)
		}
	}
}

func TestAClockThatIsSetBackForgetsRefusals(t *testing.T) {
	var r refusals
	a := order("b")
	r.note(&a, &Outcome{Refused: OrderRefused, Error: ErrRefused.Error()}, t0.Add(time.Hour))
	if len(r.now(t0.Add(time.Hour))["worker"]) != 1 || len(r.now(t0)) != 0 || len(r) != 0 {
		t.Errorf("%+v", r)
	}
}
