package rightsize

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// t0 is when the process leads.
var t0 = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func TestKillsThatMayHaveCountedBeforeDoNotCount(t *testing.T) {
	resized := func(pod string, ago time.Duration, applied bool) *Resized {
		return &Resized{Pod: pod, At: t0.Add(-ago), Applied: applied}
	}
	for _, c := range []struct {
		name string
		ago  time.Duration // before the process led
		last *Resized
		now  *Resized // by the process itself
		want bool
	}{
		{name: "while it leads", ago: -time.Minute, want: true},
		{name: "just before, when perhaps no process looked", ago: 4 * time.Minute, want: true},
		{name: "long before", ago: 6 * time.Minute},
		{name: "none", ago: 1e6 * time.Hour},
		{name: "since a resize", ago: time.Minute, last: resized("shop/a", 2*time.Minute, true), want: true},
		{name: "before it", ago: 3 * time.Minute, last: resized("shop/a", 2*time.Minute, true)},
		{name: "before another pod's, which may have followed its own", ago: 3 * time.Minute, last: resized("shop/b", 2*time.Minute, true)},
		{name: "before one that was refused", ago: 3 * time.Minute, last: resized("shop/a", 2*time.Minute, false), want: true},
		{name: "long before, and a longer time before that it was resized", ago: time.Hour, last: resized("shop/a", 2*time.Hour, true)},
		{name: "before a resize that a clock which jumped puts into the future", ago: time.Minute, last: resized("shop/b", -time.Hour, true), want: true},
		{name: "seen once the pod has been given more", ago: -time.Minute, now: resized("shop/a", -2*time.Minute, true)},
		{name: "seen once another pod has", ago: -time.Minute, now: resized("shop/b", -2*time.Minute, true), want: true},
	} {
		s := NewSizer(&Wants{Last: c.last}, t0)
		if c.now != nil {
			s.Done(*c.now)
		}
		if got := s.counts("shop/a", "app", t0.Add(-c.ago)); got != c.want {
			t.Errorf("%s: counts %v", c.name, got)
		}
	}
}

// Pods have random sizes and uses; some are not ready, some have a resize under way, some are
// refused one. They are resized one by one, none that was refused of late, and never while
// something holds them. Once all are left alone nothing remains to be done.
func TestPodsAreResizedOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods := make([]Candidate, rapid.IntRange(1, 5).Draw(t, "pods"))
		for i := range pods {
			requests := pricing.Resources{CPU: pricing.MilliCPU(rapid.IntRange(0, 2000).Draw(t, "cpu")), Memory: pricing.Bytes(rapid.IntRange(0, 2000).Draw(t, "memory")) * pricing.MiB}
			pods[i] = Candidate{Name: fmt.Sprint("shop/", i), Ready: true, Pod: Pod{Running: true, Started: t0, Containers: []Container{{Name: "app", Requests: requests}}}}
		}
		cores, bytes := rapid.Float64Range(0.01, 3).Draw(t, "cores"), rapid.Float64Range(1e6, 3e9).Draw(t, "bytes")
		w := &Wants{Mode: InPlace}
		s := NewSizer(w, t0)
		refused, resized := map[string]time.Time{}, map[string]int{}
		for round := range 60 {
			now := t0.Add(time.Duration(round) * time.Minute)
			calm := round > 30
			w.Held = nil
			if !calm && rapid.IntRange(0, 3).Draw(t, "held") == 0 {
				w.Held = &Reason{Code: "Paused"}
			}
			pending := false
			for i := range pods {
				p := &pods[i]
				p.Ready = calm || rapid.IntRange(0, 5).Draw(t, "ready") > 0
				if p.Resize = ResizeDone; !calm && rapid.IntRange(0, 9).Draw(t, "pending") == 0 {
					p.Resize, pending = ResizePending, true
				}
			}
			s.Learn(now, pods, used(pods, now, cores, bytes))
			says, order := s.Decide(now, w, pods)
			if says.Reason.Code == "" {
				t.Fatalf("round %d: no reason", round)
			}
			if order == nil {
				continue
			}
			if w.Held != nil || pending || round == 0 {
				t.Fatalf("round %d: %s is resized: held %v, pending %v", round, order.Pod, w.Held, pending)
			}
			if at, was := refused[order.Pod]; was && now.Sub(at) < refusedFor {
				t.Fatalf("round %d: %s is resized, which was refused at %s", round, order.Pod, at)
			}
			if last := says.Last; last != nil && last.Pod != order.Pod {
				for _, p := range pods {
					if p.Name == last.Pod && !p.Ready {
						t.Fatalf("round %d: %s is resized while %s, the last one, is not ready", round, order.Pod, last.Pod)
					}
				}
			}
			err := ""
			if !calm && rapid.Bool().Draw(t, "refused") {
				err, refused[order.Pod] = "no", now
			}
			for i := range pods {
				if pods[i].Name == order.Pod && err == "" {
					pods[i].Containers = []Container{{Name: "app", Requests: order.Changes[0].Requests}}
				}
			}
			s.Done(order.Done(now, err))
			if calm {
				resized[order.Pod]++
			}
			if resized[order.Pod] > 2 {
				t.Fatalf("round %d: %s is resized three times at the same use", round, order.Pod)
			}
		}
		switch code := s.Says().Reason.Code; code {
		// The bounds close in on the use with time, and may reach a request in the last round.
		case ReasonUnchanged, ReasonWithinBounds, ReasonQoSFixed, ReasonResized:
		default:
			t.Fatalf("in the end: %v", s.Says().Reason)
		}
	})
}

func used(pods []Candidate, now time.Time, cores, bytes float64) map[string][]podscaler.ContainerUse {
	all := map[string][]podscaler.ContainerUse{}
	for _, p := range pods {
		all[p.Name] = []podscaler.ContainerUse{{
			Name: "app", CPU: podscaler.Sample{Known: true, Value: cores, At: now, Span: time.Minute}, Memory: podscaler.Sample{Known: true, Value: bytes, At: now},
		}}
	}
	return all
}

// lone is a workload of one pod that requests this much, of which something is measured.
func lone(cpu pricing.MilliCPU, memory pricing.Bytes) []Candidate {
	requests := pricing.Resources{CPU: cpu, Memory: memory}
	return []Candidate{{Name: "shop/0", Ready: true, Pod: Pod{Running: true, Started: t0, Containers: []Container{{Name: "app", Requests: requests}}}}}
}

func TestWhatASizerSays(t *testing.T) {
	keep := &Reason{Code: ReasonScaledByCPU}
	for _, c := range []struct {
		name        string
		wants       Wants
		change      func([]Candidate, map[string][]podscaler.ContainerUse)
		cpu, memory bool // it is to request more
		outside     bool
		kept        bool // KeepCPU is among the reasons
	}{
		{name: "both are too small", cpu: true, memory: true, outside: true},
		{name: "its CPU is not known", change: func(_ []Candidate, u map[string][]podscaler.ContainerUse) { u["shop/0"][0].CPU.Known = false }, memory: true, outside: true},
		{name: "its memory is not known", change: func(_ []Candidate, u map[string][]podscaler.ContainerUse) { u["shop/0"][0].Memory.Known = false }, cpu: true, outside: true},
		{name: "another container's use", change: func(_ []Candidate, u map[string][]podscaler.ContainerUse) { u["shop/0"][0].Name = "proxy" }},
		{name: "its CPU is kept", wants: Wants{KeepCPU: keep}, memory: true, outside: true, kept: true},
		{name: "its memory is kept", wants: Wants{KeepMemory: keep}, cpu: true, outside: true, kept: true},
		{name: "its CPU is only shown", wants: Wants{KeepCPU: keep, Mode: Off, Held: &Reason{Code: ReasonModeOff}}, outside: true},
		{
			name: "it requests enough", change: func(p []Candidate, _ map[string][]podscaler.ContainerUse) {
				p[0].Containers[0].Requests = pricing.Resources{CPU: 1300, Memory: 1300 * pricing.MiB}
			},
		},
		{name: "it does not run", change: func(p []Candidate, _ map[string][]podscaler.ContainerUse) { p[0].Running = false }},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := c.wants
			if w.Mode == "" {
				w.Mode = InPlace
			}
			s, turned := NewSizer(&w, t0), 0
			var says Sizing
			var order *Order
			for round := range 3 {
				now, pods := t0.Add(time.Duration(round)*time.Minute), lone(100, 64*pricing.MiB)
				uses := used(pods, now, 1, 1e9)
				if c.change != nil {
					c.change(pods, uses)
				}
				s.Learn(now, pods, uses)
				if says, order = s.Decide(now, &w, pods); says.Turned {
					turned++
				}
				if order != nil && round == 0 {
					t.Error("it is resized in the first round")
				}
			}
			cpu := order != nil && order.Changes[0].Requests.CPU > 1000
			memory := order != nil && order.Changes[0].Requests.Memory > 1e9
			if cpu != c.cpu || memory != c.memory || order != nil && !cpu && order.Changes[0].Requests.CPU != 100 {
				t.Errorf("it is to request %+v, for %v", order, says.Reason)
			}
			if (says.Outside != "") != c.outside || turned != map[bool]int{true: 1}[c.outside] {
				t.Errorf("out of bounds: %q, which turned %d times", says.Outside, turned)
			}
			kept := len(says.Recommended) > 0 && slices.Contains(says.Recommended[0].Reasons, *keep)
			if kept != c.kept {
				t.Errorf("reasons %v", says.Recommended)
			}
		})
	}
}

// Bounds are left once, as soon as they are narrow enough, and met once again.
func TestBoundsAreLeftAndMet(t *testing.T) {
	w := &Wants{Of: "uid", Mode: InPlace}
	s := NewSizer(w, t0)
	var turns []string
	for round, requests := range []pricing.MilliCPU{100, 100, 1300, 1300, 100} {
		now, pods := t0.Add(time.Duration(round)*time.Minute), lone(requests, 1300*pricing.MiB)
		s.Learn(now, pods, used(pods, now, 1, 1e9))
		says, _ := s.Decide(now, w, pods)
		turns = append(turns, fmt.Sprint(says.Turned, says.Outside != ""))
		if s.Says().Turned {
			t.Error("what it says between the looks turns")
		}
	}
	if want := []string{"false false", "true true", "true false", "false false", "true true"}; !slices.Equal(turns, want) {
		t.Errorf("%v, want %v", turns, want)
	}
	if !s.Of(w) || s.Of(&Wants{Of: "another"}) || s.Changed(w) || !s.Changed(&Wants{Of: "uid"}) {
		t.Error("it does not know its object, or what is wanted")
	}
}

// A container that was killed for memory is given more than it was seen to use, once.
func TestAKillIsLearnt(t *testing.T) {
	target := func(killed time.Time) pricing.Bytes {
		w := &Wants{Mode: Off}
		s := NewSizer(w, t0)
		var says Sizing
		for round := range 3 {
			now, pods := t0.Add(time.Duration(round)*time.Minute), lone(100, 2*pricing.GiB)
			pods[0].Containers[0].OOMEnded = killed
			s.Learn(now, pods, used(pods, now, 1, 1e9))
			says, _ = s.Decide(now, w, pods)
		}
		return says.Recommended[0].Target.Memory
	}
	never, killed, old := target(time.Time{}), target(t0.Add(-time.Minute)), target(t0.Add(-time.Hour))
	if killed < 2*pricing.GiB || never != old || never >= killed {
		t.Errorf("target %d, %d after a kill, %d long after one", never, killed, old)
	}
}

func TestWhatCameOfAnOrder(t *testing.T) {
	o := &Order{Pod: "shop/0", Reasons: []Reason{{Code: ReasonOutsideBounds, Text: "too small"}}, Changes: []Change{{Container: "app", Requests: pricing.Resources{CPU: 250, Memory: pricing.GiB}}}}
	done := o.Done(t0, "")
	if want := (Reason{Code: ReasonResized, Text: "pod shop/0: too small; container app is to request 250m and 1024Mi"}); !done.Applied || done.Outcome != want || len(done.Reasons) != 1 {
		t.Errorf("%+v", done)
	}
	failed := o.Done(t0, "no room")
	if failed.Applied || failed.Outcome.Code != ReasonFailedResize || len(failed.Reasons) != 2 || failed.Reasons[1] != (Reason{Code: ReasonFailedResize, Text: "no room"}) || len(o.Reasons) != 1 {
		t.Errorf("%+v", failed)
	}
}

// A pod whose resize was refused is left alone for a while, and not a moment longer.
func TestARefusedPodHasItsTurnAgain(t *testing.T) {
	w := &Wants{Mode: InPlace}
	s := NewSizer(w, t0)
	var asked []time.Duration
	for round := range 25 {
		now, pods := t0.Add(time.Duration(round)*time.Minute), lone(100, pricing.GiB)
		s.Learn(now, pods, used(pods, now, 1, 1e9))
		if _, order := s.Decide(now, w, pods); order != nil {
			asked = append(asked, now.Sub(t0))
			s.Done(order.Done(now, "no"))
		}
	}
	if want := []time.Duration{time.Minute, 11 * time.Minute, 21 * time.Minute}; !slices.Equal(asked, want) {
		t.Errorf("asked at %v, want %v", asked, want)
	}
}

// A pod whose node has no room for its resize keeps the others from theirs for five minutes, and
// not for good.
func TestAPodThatWaitsForRoomKeepsTheOthersWaitingForAWhile(t *testing.T) {
	for _, mode := range []Mode{InPlace, Auto} {
		w := &Wants{Mode: mode, Replicas: 3}
		pods := append(lone(100, 64*pricing.MiB), lone(100, 64*pricing.MiB)...)
		pods = append(pods, lone(1300, 1300*pricing.MiB)...)
		pods[1].Name, pods[2].Name = "shop/1", "shop/2"
		pods[0].Resize, pods[0].ResizeSince, pods[0].Pinned = ResizeDeferred, t0, "bare"
		s := NewSizer(w, t0)
		resized := -1
		for minute := range 10 {
			now := t0.Add(time.Duration(minute) * time.Minute)
			s.Learn(now, pods, used(pods, now, 1, 1e9))
			_, order := s.Decide(now, w, pods)
			if order != nil && resized < 0 {
				if order.Pod != "shop/1" || order.Evict {
					t.Fatalf("%s: minute %d: %v", mode, minute, order)
				}
				resized, pods[1].Containers[0].Requests = minute, order.Changes[0].Requests
			}
		}
		want := map[Mode]string{InPlace: ReasonResizePending, Auto: ReasonEvictionHeld}[mode]
		if got := s.Says().Reason; resized != 5 || got.Code != want || !strings.Contains(got.Text, "shop/0") {
			t.Errorf("%s: resized in minute %d, and then %v, want 5 and %s of the first", mode, resized, got, want)
		}
	}
}

// A node's clock is ahead. What it says counts once the time has come: before, it would make all
// that was learnt worth nothing, and be the last that counts for long.
func TestUseOfTheFutureDoesNotCount(t *testing.T) {
	ahead := func(by time.Duration, minutes int) *Usage {
		s := NewSizer(&Wants{}, t0)
		for minute := range minutes {
			now, pods := t0.Add(time.Duration(minute)*time.Minute), lone(100, pricing.GiB)
			uses := used(pods, now, 1, 1e9)
			if minute == 3 {
				uses = used(pods, now.Add(by), 4, 4e9)
				pods[0].Containers[0].OOMEnded = now.Add(by)
			}
			s.Learn(now, pods, uses)
		}
		return s.usage
	}
	if got, want := ahead(61*time.Second, 6).containers["app"].samples, 5; got != want {
		t.Errorf("%d samples count, want %d", got, want)
	}
	if of := ahead(40*24*time.Hour, 6).containers["app"]; of.samples != 5 || of.ooms != 0 || of.seen.After(t0.Add(time.Hour)) {
		t.Errorf("%d samples and %d kills count, the last of %s", of.samples, of.ooms, of.seen)
	}
	if got, want := ahead(time.Minute, 4).containers["app"].samples, 4; got != want {
		t.Errorf("of a clock that is a bit ahead %d samples count, want %d", got, want)
	}
}

// A ratio of the pod's limits to its requests has the limit of one container lowered as another
// requests less. Memory that is in use stays.
func TestNoMemoryIsTakenAwayThatIsInUse(t *testing.T) {
	rec := func(name string, cpu, memory int64) Recommendation {
		to := pair(cpu, memory)
		return Recommendation{Container: name, Resources: both, Target: to, Lower: to, Upper: to}
	}
	known := func(v float64) podscaler.Sample { return podscaler.Sample{Known: true, Value: v * float64(mi)} }
	for _, c := range []struct {
		uses   podscaler.Sample // by the cache
		limits pricing.Bytes
		code   string
	}{{known(250), 250, ""}, {known(251), 300, ReasonBelowUse}, {podscaler.Sample{}, 300, ReasonBelowUse}} {
		s := NewSizer(&Wants{}, noon)
		s.wants.Mode, s.says.Recommended = InPlace, []Recommendation{rec("app", 200, 50), rec("cache", 100, 100)}
		p := &Candidate{Name: "a", Pod: Pod{
			Running: true, Ranges: Ranges{Pod: Range{Ratio: pricing.Resources{Memory: 2000}}},
			Containers: []Container{{Name: "app", Requests: pair(100, 200), Limits: pair(100, 200)}, {Name: "cache", Requests: pair(100, 100), Limits: pair(300, 300)}},
		}}
		p.Uses = []podscaler.ContainerUse{{Name: "app", Memory: known(1)}, {Name: "cache", Memory: c.uses}}
		d := s.decide(noon, p)
		after := p.changed(d.Changes)
		if d.Action != Resize || after[0].Requests.CPU != 200 || after[1].Limits.Memory != c.limits*mi || c.code != "" && d.Reasons[len(d.Reasons)-1].Code != c.code {
			t.Errorf("with %+v in use, %s for %v: %+v", c.uses, d.Action, d.Reasons, after)
		}
	}
}

// A pod that is older than a LimitRange of its namespace may violate it by what a resize does not
// change. The API server refuses all its resizes then: it is not asked, and the reason is said.
func TestWhatALimitRangeRefusesIsNotAskedFor(t *testing.T) {
	amounts := func(m pricing.MilliCPU, b pricing.Bytes) pricing.Resources {
		return pricing.Resources{CPU: m, Memory: b}
	}
	for _, c := range []struct {
		name   string
		starts []Start
		beside []Container
		want   bool // it is resized
	}{
		{name: "all is within", starts: []Start{{Requests: amounts(100, pricing.GiB), Limits: amounts(100, pricing.GiB)}}, want: true},
		{name: "an init container is above", starts: []Start{{Requests: amounts(100, pricing.GiB), Limits: amounts(9000, pricing.GiB)}}},
		{name: "a container that is not sized is", beside: []Container{{Name: "off", Requests: amounts(100, 50*pricing.GiB), Limits: amounts(100, 50*pricing.GiB)}}},
	} {
		w := &Wants{Mode: InPlace, Policies: Policies{{Container: "off", Off: true}}}
		pods := []Candidate{{Name: "shop/a", Ready: true, Pod: Pod{
			Running: true, Started: t0, Starts: c.starts,
			Containers: append([]Container{{Name: "app", Requests: amounts(10, pricing.MiB), Limits: amounts(20, 2*pricing.MiB)}}, c.beside...),
			Ranges:     Ranges{Container: Range{Max: amounts(4000, 8*pricing.GiB)}},
		}}}
		s := NewSizer(w, t0)
		var order *Order
		var says Sizing
		for round := range 3 {
			now := t0.Add(time.Duration(round) * time.Minute)
			s.Learn(now, pods, used(pods, now, 0.5, 2e8))
			says, order = s.Decide(now, w, pods)
		}
		if (order != nil) != c.want {
			t.Errorf("%s: %v", c.name, order)
		}
		if !c.want && says.Reason.Code != ReasonLimitRange {
			t.Errorf("%s: the reason is %v", c.name, says.Reason)
		}
	}
}
