package podscaler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestCronFaultsNameFieldRuleAndValue(t *testing.T) {
	for s, fault := range map[string]string{
		"":                `must have five fields: minute, hour, day of month, month, day of week, as in 0 8 * * 1-5, was ""`,
		"0 8 * *":         `must have five fields: minute, hour, day of month, month, day of week, as in 0 8 * * 1-5, was "0 8 * *"`,
		"0 0 8 * * 1":     `must have five fields`,
		"@reboot":         `must have five fields`,
		"60 8 * * *":      `minute must be between 0 and 59, was "60" in "60 8 * * *"`,
		"0 24 * * *":      `hour must be between 0 and 23, was "24" in "0 24 * * *"`,
		"0 -1 * * *":      `hour must be between 0 and 23, was "" in`,
		"0 +1 * * *":      `hour must be between 0 and 23, was "+1" in`,
		"0 8 0 * *":       `day of month must be between 1 and 31, was "0" in`,
		"0 8 * 13 *":      `month must be between 1 and 12 or one of jan to dec, was "13" in`,
		"0 8 * * 8":       `day of week must be between 0 and 7 or one of sun to sat, was "8" in`,
		"0 8 * * monday":  `day of week must be between 0 and 7 or one of sun to sat, was "monday" in`,
		"0 18-8 * * *":    `hour must be a range that goes up, was "18-8" in`,
		"0/0 8 * * *":     `minute must have a step between 1 and 59, was "0/0" in`,
		"*/x 8 * * *":     `minute must have a step between 1 and 59, was "*/x" in`,
		"0 8,,9 * * *":    `hour must be between 0 and 23, was "" in`,
		"0 8 30 feb *":    `must be a date that comes: no month of it has that day, was "0 8 30 feb *"`,
		"0 8 31 4,6,11 *": `must be a date that comes`,
	} {
		if _, err := podscaler.ParseCron(s); err == nil || !strings.HasPrefix(err.Error(), fault) {
			t.Errorf("%q: %v, should be: %s", s, err, fault)
		}
	}
}

// A schedule opens and closes on the days that KEDA's cron trigger and Kubernetes read.
func TestASteppedStarIsADayFieldLikeAnyOther(t *testing.T) {
	for _, c := range []struct {
		days string // of month, any month, of week
		on   []int  // in the week from Sunday, 1 March 2026
	}{
		{"*/2 * *", []int{1, 3, 5, 7}},
		{"*/2 * */1", []int{1, 3, 5, 7}},
		{"*/2 * 1", []int{1, 2, 3, 5, 7}},
		{"2 * */3", []int{1, 2, 4, 7}},
		{"*/2 * */3", []int{1, 3, 4, 5, 7}},
		{"1-31/2 * 1", []int{1, 2, 3, 5, 7}},
		{"*/1 * 1", []int{2}},
		{"*/01 * 1", []int{2}},
		{"5,* * 1", []int{2}},
		{"*/2,* * 1", []int{2}},
		{"*/2,2 * */3", []int{1, 2, 3, 4, 5, 7}},
		{"* * 1/2", []int{2, 4, 6}},
		{"* * 1/3", []int{2, 5}},
		{"* * mon/6", []int{2}},
		{"* * 0/3", []int{1, 4, 7}},
		{"* * 7/2", []int{1}},
		{"* * */7", []int{1}},
		{"* * 1-7/3", []int{1, 2, 5}},
	} {
		w := workload(func(w *podscaler.Workload) {
			w.Schedules = []podscaler.Schedule{{Name: "day", Start: cron(t, "0 8 "+c.days), End: cron(t, "0 18 * * *"), Zone: zone(t, "UTC"), Min: new(7)}}
		})
		var on []int
		for day := 1; day <= 7; day++ {
			s := podscaler.NewScaler(w, &wish{-1})
			noon := time.Date(2026, 3, day, 12, 0, 0, 0, time.UTC)
			if s.Decide(&podscaler.View{Now: noon, Workload: s.Workload(), Replicas: 3}).To == 7 {
				on = append(on, day)
			}
		}
		if !slices.Equal(on, c.on) {
			t.Errorf("%s: comes on %v, should be %v", c.days, on, c.on)
		}
	}
}

// comesAt is the plain reading of an expression whose fields are stars, numbers or lists of them.
func comesAt(fields []string, wall time.Time) bool {
	is := func(field string, v int) bool {
		for part := range strings.SplitSeq(field, ",") {
			if part == "*" || part == fmt.Sprint(v) {
				return true
			}
		}
		return false
	}
	dayOfMonth, weekday := is(fields[2], wall.Day()), is(fields[4], int(wall.Weekday()))
	day := dayOfMonth && weekday
	if fields[2] != "*" && fields[4] != "*" {
		day = dayOfMonth || weekday
	}
	return is(fields[0], wall.Minute()) && is(fields[1], wall.Hour()) && is(fields[3], int(wall.Month())) && day
}

func anyField(t *rapid.T, name string, low, high int) string {
	n := rapid.IntRange(0, 3).Draw(t, name+" values")
	if n == 0 {
		return "*"
	}
	values := make([]string, n)
	for i := range values {
		values[i] = fmt.Sprint(rapid.IntRange(low, high).Draw(t, name))
	}
	return strings.Join(values, ",")
}

// A window is walked through minute by minute from ten days before, over a change of the clocks.
func TestAWindowOpensAndClosesAsItsClockShows(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	days := []time.Time{
		time.Date(2026, 3, 29, 0, 0, 0, 0, berlin.Location), time.Date(2026, 10, 25, 0, 0, 0, 0, berlin.Location),
		time.Date(2026, 6, 1, 0, 0, 0, 0, berlin.Location),
	}
	rapid.Check(t, func(t *rapid.T) {
		var text [2]string
		var crons [2]podscaler.Cron
		for i, name := range []string{"start", "end"} {
			fields := []string{
				anyField(t, name+" minute", 0, 59), anyField(t, name+" hour", 0, 5), anyField(t, name+" day", 24, 31), "*", anyField(t, name+" weekday", 0, 6),
			}
			text[i] = strings.Join(fields, " ")
			crons[i] = must.Get(podscaler.ParseCron(text[i]))(t)
		}
		if text[0] == text[1] {
			t.Skip("the same start and end")
		}
		w := workload(func(w *podscaler.Workload) {
			w.Schedules = []podscaler.Schedule{{Name: "night", Start: crons[0], End: crons[1], Zone: berlin, Min: new(7)}}
		})
		now := rapid.SampledFrom(days).Draw(t, "day").Add(time.Duration(rapid.IntRange(0, 6*60).Draw(t, "minute")) * time.Minute)
		open, known := false, false
		skipped := func(at time.Time, visit func(wall time.Time)) {
			_, before := at.Add(-time.Minute).Zone()
			_, after := at.Zone()
			wall := at.UTC().Add(time.Duration(before) * time.Second)
			for range max(0, after-before) / 60 {
				visit(wall)
				wall = wall.Add(time.Minute)
			}
			visit(at.UTC().Add(time.Duration(after) * time.Second))
		}
		for at := now.Add(-10 * 24 * time.Hour); !at.After(now); at = at.Add(time.Minute) {
			skipped(at, func(wall time.Time) {
				if comesAt(strings.Fields(text[1]), wall) {
					open, known = false, true
				}
				if comesAt(strings.Fields(text[0]), wall) {
					open, known = true, true
				}
			})
		}
		if !known {
			t.Skip("comes more rarely")
		}
		s := podscaler.NewScaler(w, &wish{-1})
		d := s.Decide(&podscaler.View{Now: now, Workload: s.Workload(), Replicas: 3})
		if (d.To == 7) != open {
			t.Fatalf("%s to %s, at %s: went to %d, though open is %v; %v", text[0], text[1], now, d.To, open, d.Reasons)
		}
	})
}

// On the last day of a leap year that no zone's table reaches, ZoneBounds says that the offset
// ended before that day.
func TestARampOverTheEndOfALeapYearEnds(t *testing.T) {
	w := workload(func(w *podscaler.Workload) {
		w.Schedules = []podscaler.Schedule{{
			Name: "new year", Start: cron(t, "0 8 1 1 *"), End: cron(t, "0 9 1 1 *"), Zone: zone(t, "Europe/Berlin"),
			Min: new(10), Ramp: 24 * time.Hour,
		}}
	})
	s := podscaler.NewScaler(w, &wish{-1})
	now := time.Date(2048, time.December, 31, 19, 0, 0, 0, time.UTC) // 12 hours before
	if d := s.Decide(&podscaler.View{Now: now, Workload: s.Workload(), Replicas: 1}); d.To != 6 {
		t.Errorf("halfway up the ramp to 10 there are %d, want 6: %v", d.To, d.Reasons)
	}
}

func zone(t interface{ Fatal(...any) }, name string) (z pricing.Zone) {
	if err := z.UnmarshalText([]byte(name)); err != nil {
		t.Fatal(err)
	}
	return z
}

func cron(t *testing.T, s string) podscaler.Cron {
	t.Helper()
	return must.Get(podscaler.ParseCron(s))(t)
}
