package podscaler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// at is a moment, and how many replicas of 3 there must be then; a wish of 1 to 100 holds
// otherwise.
type at struct {
	time   string
	wish   int // 0 is an unknown one
	to     int
	reason string
}

// onTheClock decides anew at each moment, with 3 replicas there and 2 to 40 allowed.
func onTheClock(t *testing.T, schedules []podscaler.Schedule, moments []at) {
	t.Helper()
	w := workload(func(w *podscaler.Workload) { w.Min, w.Max, w.Schedules = 2, 40, schedules })
	must.Do(t, w.Validate())
	for _, m := range moments {
		now := must.Get(time.Parse(time.RFC3339, m.time))(t)
		if m.wish == 0 {
			m.wish = -1
		}
		s := podscaler.NewScaler(w, &wish{m.wish})
		d := s.Decide(&podscaler.View{Now: now, Workload: s.Workload(), Replicas: 3})
		if d.To != m.to || !mentions(d, m.reason) {
			t.Errorf("at %s 3 replicas went to %d, should be %d by %q; %v", m.time, d.To, m.to, m.reason, d.Reasons)
		}
	}
}

func TestASchedulesFloorIsThereWhileItsWindowIsOpen(t *testing.T) {
	sale := podscaler.Schedule{
		Name: "sale", Start: cron(t, "0 8 * * mon-fri"), End: cron(t, "0 20 * * mon-fri"), Zone: zone(t, "Europe/Berlin"), Min: new(6),
	}
	onTheClock(t, []podscaler.Schedule{sale}, []at{
		{"2026-03-02T07:59:59+01:00", 0, 3, "Unknown"}, // a Monday
		{"2026-03-02T08:00:00+01:00", 0, 6, "ScheduleFloor: there are 3 replicas, at least 6 are allowed by schedule sale"},
		{"2026-03-02T19:59:59+01:00", 0, 6, "ScheduleFloor"},
		{"2026-03-02T20:00:00+01:00", 0, 3, "Unknown"},
		{"2026-03-06T20:00:00+01:00", 0, 3, ""}, // Friday
		{"2026-03-07T12:00:00+01:00", 0, 3, ""}, // Saturday
		{"2026-07-06T06:00:00Z", 0, 6, "ScheduleFloor"},
		{"2026-07-06T05:59:00Z", 0, 3, ""},
	})
	t.Run("and holds what the policy proposes", func(t *testing.T) {
		s := podscaler.NewScaler(workload(func(w *podscaler.Workload) { w.Schedules = []podscaler.Schedule{sale} }), &wish{2})
		now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
		d := s.Decide(&podscaler.View{Now: now, Workload: s.Workload(), Replicas: 8})
		if d.To != 6 || !mentions(d, "ScheduleFloor: 2 wanted, at least 6 allowed now by schedule sale") {
			t.Errorf("8 replicas went to %d, should be 6; %v", d.To, d.Reasons)
		}
	})
}

func TestASchedulesCeilingIsThereWhileItsWindowIsOpen(t *testing.T) {
	night := []podscaler.Schedule{{Name: "night", Start: cron(t, "0 22 * * *"), End: cron(t, "0 6 * * *"), Max: new(2)}}
	onTheClock(t, night, []at{
		{"2026-03-02T21:59:00Z", 9, 9, "DesiredWithinRange"},
		{"2026-03-02T22:00:00Z", 9, 2, "ScheduleCeiling: there are 3 replicas, at most 2 are allowed by schedule night"},
		{"2026-03-03T05:59:00Z", 9, 2, "ScheduleCeiling"},
		{"2026-03-03T06:00:00Z", 9, 9, ""},
	})
	night[0].Max = new(5)
	onTheClock(t, night, []at{{"2026-03-02T22:00:00Z", 9, 5, "ScheduleCeiling: 9 wanted, at most 5 allowed now by schedule night"}})
}

func TestOfSchedulesThatOverlapTheHighestFloorCounts(t *testing.T) {
	all := func(name string, low, high *int) podscaler.Schedule {
		return podscaler.Schedule{Name: name, Start: cron(t, "0 8 * * *"), End: cron(t, "0 20 * * *"), Min: low, Max: high}
	}
	const noon = "2026-03-02T12:00:00Z"
	onTheClock(t, []podscaler.Schedule{all("a", new(6), nil), all("b", new(9), nil), all("c", new(7), nil)},
		[]at{{noon, 0, 9, "ScheduleFloor: there are 3 replicas, at least 9 are allowed by schedule b"}})
	onTheClock(t, []podscaler.Schedule{all("a", nil, new(8)), all("b", nil, new(6)), all("c", nil, new(7))},
		[]at{{noon, 30, 6, "ScheduleCeiling: 30 wanted, at most 6 allowed now by schedule b"}})
	onTheClock(t, []podscaler.Schedule{all("few", nil, new(5)), all("many", new(9), nil)}, []at{
		{noon, 0, 9, "ScheduleFloor"},
		{noon, 0, 9, "SchedulesClash: at least 9 by schedule many and at most 5 by schedule few: at least 9 counts"},
	})
	onTheClock(t, []podscaler.Schedule{all("few", nil, new(9)), all("many", new(9), nil)}, []at{{noon, 20, 9, ""}})
}

func TestARampReachesTheFloorInStepsBeforeTheWindow(t *testing.T) {
	// From 2 to 12 in ten minutes and ten steps.
	ramp := podscaler.Schedule{Name: "sale", Start: cron(t, "0 8 * * *"), End: cron(t, "0 20 * * *"), Min: new(12), Ramp: 10 * time.Minute}
	onTheClock(t, []podscaler.Schedule{ramp}, []at{
		{"2026-03-02T07:50:00Z", 0, 3, "Unknown"},
		{"2026-03-02T07:51:59Z", 0, 3, "Unknown"}, // 3 is the first step
		{"2026-03-02T07:52:00Z", 0, 4, "ScheduleFloor"},
		{"2026-03-02T07:55:00Z", 0, 7, "ScheduleFloor"},
		{"2026-03-02T07:59:59Z", 0, 11, "ScheduleFloor"},
		{"2026-03-02T08:00:00Z", 0, 12, "ScheduleFloor"},
		{"2026-03-02T20:00:00Z", 0, 12, "ScheduleFloor"},
		{"2026-03-02T20:00:01Z", 0, 11, "ScheduleFloor"},
		{"2026-03-02T20:05:00Z", 0, 7, "ScheduleFloor"},
		{"2026-03-02T20:09:00Z", 0, 3, "Unknown"},
		{"2026-03-02T20:10:00Z", 1, 2, "TooFewReplicas"},
	})
	t.Run("and so does a ceiling", func(t *testing.T) {
		ramp.Min, ramp.Max = nil, new(10) // from 40
		onTheClock(t, []podscaler.Schedule{ramp}, []at{
			{"2026-03-02T07:50:00Z", 99, 40, "TooManyReplicas"},
			{"2026-03-02T07:55:00Z", 99, 25, "ScheduleCeiling"},
			{"2026-03-02T08:00:00Z", 99, 10, "ScheduleCeiling"},
			{"2026-03-02T20:05:00Z", 99, 25, "ScheduleCeiling"},
		})
	})
}

func TestAnEventComesOnce(t *testing.T) {
	event := podscaler.Schedule{
		Name: "launch", From: time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), Min: new(12), Ramp: 10 * time.Minute,
	}
	onTheClock(t, []podscaler.Schedule{event}, []at{
		{"1700-03-02T08:30:00Z", 0, 3, ""},
		{"2026-03-02T07:55:00Z", 0, 7, "ScheduleFloor"},
		{"2026-03-02T08:00:00Z", 0, 12, "by schedule launch"},
		{"2026-03-02T08:59:59Z", 0, 12, "by schedule launch"},
		{"2026-03-02T09:05:00Z", 0, 7, "ScheduleFloor"},
		{"2026-03-02T09:10:00Z", 0, 3, ""},
		{"2027-03-02T08:30:00Z", 0, 3, ""},
	})
}

// On 29 March 2026 clocks in Berlin go from 02:00 CET to 03:00 CEST at 01:00 UTC, and on 25 October
// from 03:00 CEST back to 02:00 CET at 01:00 UTC.
func TestWindowsFollowTheClockThroughItsChanges(t *testing.T) {
	for _, c := range []struct {
		name, start, end string
		moments          []at
	}{
		{"opens in the hour that does not exist: with the change", "30 2 * * *", "0 5 * * *", []at{
			{"2026-03-29T00:59:59Z", 0, 3, ""}, {"2026-03-29T01:00:00Z", 0, 6, ""}, {"2026-03-29T02:59:59Z", 0, 6, ""}, {"2026-03-29T03:00:00Z", 0, 3, ""},
			{"2026-03-30T00:29:59Z", 0, 3, ""}, {"2026-03-30T00:30:00Z", 0, 6, ""},
		}},
		{"closes in the hour that does not exist: with the change", "0 1 * * *", "30 2 * * *", []at{
			{"2026-03-28T23:59:59Z", 0, 3, ""}, {"2026-03-29T00:00:00Z", 0, 6, ""}, {"2026-03-29T00:59:59Z", 0, 6, ""}, {"2026-03-29T01:00:00Z", 0, 3, ""},
		}},
		{"lies in the hour that does not exist: not at all", "15 2 * * *", "45 2 * * *", []at{
			{"2026-03-29T00:59:59Z", 0, 3, ""}, {"2026-03-29T01:00:00Z", 0, 3, ""}, {"2026-03-29T01:20:00Z", 0, 3, ""}, {"2026-03-30T00:20:00Z", 0, 6, ""},
		}},
		{"spans the hour that does not exist: an hour shorter", "0 1 * * *", "0 4 * * *", []at{
			{"2026-03-29T00:00:00Z", 0, 6, ""}, {"2026-03-29T01:30:00Z", 0, 6, ""}, {"2026-03-29T02:00:00Z", 0, 3, ""},
		}},
		{"opens in the hour that exists twice: the first time", "30 2 * * *", "0 5 * * *", []at{
			{"2026-10-25T00:29:59Z", 0, 3, ""}, {"2026-10-25T00:30:00Z", 0, 6, ""}, {"2026-10-25T01:15:00Z", 0, 6, ""}, {"2026-10-25T04:00:00Z", 0, 3, ""},
		}},
		{"closes in the hour that exists twice: the first time", "0 1 * * *", "30 2 * * *", []at{
			{"2026-10-25T00:29:59Z", 0, 6, ""}, {"2026-10-25T00:30:00Z", 0, 3, ""}, {"2026-10-25T01:15:00Z", 0, 3, ""},
		}},
		{"lies in the hour that exists twice: twice", "15 2 * * *", "45 2 * * *", []at{
			{"2026-10-25T00:15:00Z", 0, 6, ""}, {"2026-10-25T00:45:00Z", 0, 3, ""}, {"2026-10-25T01:15:00Z", 0, 6, ""}, {"2026-10-25T01:45:00Z", 0, 3, ""},
		}},
		{"a whole day, which is 23 hours", "@daily", "59 23 * * *", []at{
			{"2026-03-28T22:59:00Z", 0, 3, ""}, {"2026-03-28T23:00:00Z", 0, 6, ""}, {"2026-03-29T21:58:59Z", 0, 6, ""}, {"2026-03-29T21:59:00Z", 0, 3, ""},
		}},
		{"29 February, years ago", "0 0 29 2 *", "0 0 1 3 *", []at{
			{"2026-03-29T00:00:00Z", 0, 3, ""}, {"2028-02-29T12:00:00Z", 0, 6, ""}, {"2028-02-29T23:00:00Z", 0, 3, ""},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			onTheClock(t, []podscaler.Schedule{{Name: "s", Start: cron(t, c.start), End: cron(t, c.end), Zone: zone(t, "Europe/Berlin"), Min: new(6)}}, c.moments)
		})
	}
	t.Run("a ramp over a change of the clocks is as long as ever", func(t *testing.T) {
		ramp := podscaler.Schedule{Name: "s", Start: cron(t, "30 2 * * *"), End: cron(t, "0 5 * * *"), Zone: zone(t, "Europe/Berlin"), Min: new(12), Ramp: time.Hour}
		onTheClock(t, []podscaler.Schedule{ramp}, []at{{"2026-03-29T00:30:00Z", 0, 7, ""}, {"2026-03-29T01:00:00Z", 0, 12, ""}, {"2026-10-25T00:00:00Z", 0, 7, ""}})
	})
}

func TestScheduleFaultsNameKeyRuleAndValue(t *testing.T) {
	type S = podscaler.Schedule
	morning, evening := cron(t, "0 8 * * *"), cron(t, "0 20 * * *")
	day := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	for fault, change := range map[string]func(*S){
		`schedules[1].name: must not be empty, was ""`:                                                      func(s *S) { s.Name = "" },
		`schedules[1].name: must be the name of no other schedule, was "first"`:                             func(s *S) { s.Name = "first" },
		`schedules[1]: must have start and end, or from and to, was neither`:                                func(s *S) { s.Start, s.End = podscaler.Cron{}, podscaler.Cron{} },
		`schedules[1]: must have start and end, or from and to, was both`:                                   func(s *S) { s.From = day },
		`schedules[1].start: must be set where end is, was ""`:                                              func(s *S) { s.Start = podscaler.Cron{} },
		`schedules[1].end: must be set where start is, was ""`:                                              func(s *S) { s.End = podscaler.Cron{} },
		`schedules[1].end: must differ from start, which leaves open when the window is, was 0 8 * * *`:     func(s *S) { s.End = morning },
		`schedules[1].from: must be set where to is, was ""`:                                                func(s *S) { *s = S{Name: "x", To: day, Min: new(3)} },
		`schedules[1].to: must be after from, which is 2026-03-02T00:00:00Z, was 2026-03-02T00:00:00Z`:      func(s *S) { *s = S{Name: "x", From: day, To: day, Min: new(3)} },
		`schedules[1].ramp: must be between 0 and 24h, was 25h0m0s`:                                         func(s *S) { s.Ramp = 25 * time.Hour },
		`schedules[1]: must have minReplicas, maxReplicas or both, was neither`:                             func(s *S) { s.Min = nil },
		`schedules[1].minReplicas: must be between minReplicas and maxReplicas, which are 2 and 40, was 41`: func(s *S) { s.Min = new(41) },
		`schedules[1].minReplicas: must be between minReplicas and maxReplicas, which are 2 and 40, was 1`:  func(s *S) { s.Min = new(1) },
		`schedules[1].maxReplicas: must be between minReplicas and maxReplicas, which are 2 and 40, was 1`:  func(s *S) { s.Max = new(1) },
		`schedules[1].maxReplicas: must be at least its minReplicas, which is 6, was 5`:                     func(s *S) { s.Max = new(5) },
	} {
		w := workload(func(w *podscaler.Workload) {
			w.Min, w.Max = 2, 40
			w.Schedules = []S{{Name: "first", Start: morning, End: evening, Min: new(6)}, {Name: "second", Start: morning, End: evening, Min: new(6)}}
		})
		change(&w.Schedules[1])
		if err := w.Validate(); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v, should have %q", err, fault)
		}
	}
}
