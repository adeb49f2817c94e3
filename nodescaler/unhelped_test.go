package nodescaler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// ward is a pod that waits beside a node with room.
type ward struct {
	Unhelped
	began time.Time
}

// at looks at a minute, at which the pod waits or is placed and the node has room or not, and
// reports whether the pod is not helped.
func (w *ward) at(minute float64, change ...func(*Snapshot)) bool {
	s := &Snapshot{
		Now:   w.began.Add(time.Duration(minute * float64(time.Minute))),
		Nodes: []Node{{Name: "n", Ready: true, Allocatable: pricing.Resources{CPU: 1000, Memory: pricing.GiB}}},
		Pods:  []Pod{{Pod: podscaler.Pod{Name: "ns/a", Phase: podscaler.Pending}, Workload: "ns/app", Unschedulable: true, Requests: pricing.Resources{CPU: 100}}},
	}
	for _, c := range change {
		c(s)
	}
	w.Mark(NewIndex(s))
	return s.NotHelped(&s.Pods[0]) != ""
}

func newWard() *ward { return &ward{began: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

// spans are the minutes from and to which something is so.
func spans(last int, is func(minute int) bool) (all []string) {
	from := -1
	for minute := range last + 2 {
		switch so := minute <= last && is(minute); {
		case so && from < 0:
			from = minute
		case !so && from >= 0:
			all = append(all, fmt.Sprintf("%d-%d", from, minute-1))
			from = -1
		}
	}
	return all
}

func noRoom(s *Snapshot) { s.Nodes[0].Allocatable.CPU = 50 }

func placed(s *Snapshot) { s.Pods[0].Node, s.Pods[0].Unschedulable = "n", false }

// Four minutes of waiting and one beside room, and then ever longer rests with as long between
// them; to the minute.
func TestPodsThatNothingHelpsRestToTheMinute(t *testing.T) {
	for _, c := range []struct {
		name string
		last int
		at   func(w *ward, minute int) bool
		want []string
	}{
		{name: "for ever", last: 1300, at: func(w *ward, minute int) bool { return w.at(float64(minute)) },
			want: []string{"5-19", "25-54", "60-119", "125-244", "250-489", "495-734", "740-979", "985-1224", "1230-1300"}},
		{name: "looked at twice each minute", last: 60, at: func(w *ward, minute int) bool { w.at(float64(minute)); return w.at(float64(minute)) },
			want: []string{"5-19", "25-54", "60-60"}},
		{name: "looked at every four minutes", last: 60, at: func(w *ward, minute int) bool { return minute%4 == 0 && w.at(float64(minute)) },
			want: []string{"8-8", "12-12", "16-16", "20-20", "32-32", "36-36", "40-40", "44-44", "48-48", "52-52", "56-56", "60-60"}},
		{name: "looked at too seldom to have watched", last: 60, at: func(w *ward, minute int) bool { return minute%5 == 0 && w.at(float64(minute)) }},
		{name: "without room", last: 60, at: func(w *ward, minute int) bool { return w.at(float64(minute), noRoom) }},
		{name: "with room now and then", last: 60, at: func(w *ward, minute int) bool {
			if minute%2 == 0 {
				return w.at(float64(minute), noRoom)
			}
			return w.at(float64(minute))
		}},
		{name: "placed for a minute", last: 60, at: func(w *ward, minute int) bool {
			if minute == 10 {
				return w.at(float64(minute), placed)
			}
			return w.at(float64(minute))
		}, want: []string{"5-9", "16-30", "36-60"}},
		{name: "gone for longer than the longest rest", last: 320, at: func(w *ward, minute int) bool {
			if minute > 10 && minute < 300 {
				w.at(float64(minute), func(s *Snapshot) { s.Pods = append(s.Pods[:0], Pod{Daemon: true}) })
				return false
			}
			return w.at(float64(minute))
		}, want: []string{"5-10", "305-319"}},
		{name: "gone for a while", last: 120, at: func(w *ward, minute int) bool {
			if minute > 10 && minute < 60 {
				w.at(float64(minute), func(s *Snapshot) { s.Pods = append(s.Pods[:0], Pod{Daemon: true}) })
				return false
			}
			return w.at(float64(minute))
		}, want: []string{"5-10", "65-94", "100-120"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWard()
			got := spans(c.last, func(minute int) bool { return c.at(w, minute) })
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("minutes (-want +got):\n%s", d)
			}
		})
	}
}

// Pods that wait for no node do not count.
func TestPodsThatWaitForNoNodeAreNotLookedAt(t *testing.T) {
	for name, change := range map[string]func(*Pod){
		"not tried yet":  func(p *Pod) { p.Unschedulable = false },
		"on its way out": func(p *Pod) { p.Terminating = true },
		"a daemon":       func(p *Pod) { p.Daemon = true },
		"finished":       func(p *Pod) { p.Phase = podscaler.Succeeded },
	} {
		w := newWard()
		got := spans(60, func(minute int) bool { return w.at(float64(minute), func(s *Snapshot) { change(&s.Pods[0]) }) })
		if got != nil {
			t.Errorf("%s: not helped in minutes %v", name, got)
		}
	}
}

// A clock that was put back ends a rest that would last longer than any by it.
func TestAClockPutBackEndsARest(t *testing.T) {
	for _, back := range []struct {
		minutes float64
		rests   bool
	}{{5, true}, {235, true}, {236, false}} { // the rest ends 20 minutes after the beginning
		w := newWard()
		for minute := range 11 {
			w.at(float64(minute))
		}
		if got := w.at(10 - back.minutes + 5); got != back.rests {
			t.Errorf("%v minutes back: rests %t, want %t", back.minutes, got, back.rests)
		}
	}
}
