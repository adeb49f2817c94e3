package trial

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

var t0 = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func line(t testing.TB, n int, at time.Time, long int) string {
	t.Helper()
	text := must.Get(json.Marshal(loop.Step{
		ID: fmt.Sprintf("d-%06d", n), Time: at, Problems: []nodescaler.Reason{{Code: "Long", Text: strings.Repeat(`{"id":"d-000001"}`, long)}},
	}))(t)
	return string(text) + "\n"
}

// ids are the steps that a log comes to.
func ids(lines ...string) (string, error) {
	var j journal
	for _, l := range lines {
		j.read(strings.NewReader(l))
	}
	var all []string
	err := j.each(func(s *loop.Step) error {
		all = append(all, strings.TrimLeft(s.ID, "d-0"))
		return nil
	})
	return strings.Join(all, " "), err
}

func TestStepsAreToldFromWhatElseIsPrinted(t *testing.T) {
	one, two, three := line(t, 1, t0, 0), line(t, 2, t0.Add(5*time.Second), 600), line(t, 3, t0.Add(10*time.Second), 0)
	const log = "time=2026-03-02T08:00:00Z level=INFO msg=\"{\\\"id\\\":\\\"d-000009\\\"}\"\n"
	anew := line(t, 1, t0.Add(time.Hour), 0)
	for name, c := range map[string]struct {
		log  []string
		want string
		err  string
	}{
		"steps":                             {[]string{one, two, three}, "1 2 3", ""},
		"among lines of the log":            {[]string{log, one, log, log, two, "{}\n", "{\"id\": 1}\n", three}, "1 2 3", ""},
		"read again":                        {[]string{one, two, one, two, three, two}, "1 2 3", ""},
		"a line that is cut off":            {[]string{one, two[:500], two, three}, "1 2 3", ""},
		"the log came into a step":          {[]string{one, two[:2*piece] + log, two[2*piece:], three}, "1 2 3", ""},
		"several lines came into it":        {[]string{one, two[:piece] + log, log, log, two[piece:], three}, "1 2 3", ""},
		"a step is missing":                 {[]string{one, three}, "", "steps d-000002 to d-000002 are missing from the log"},
		"it is another process":             {[]string{one, two, anew}, "", "Plimsoll has begun anew: step d-000001 is of 2026-03-02T09:00:00Z, and was of 2026-03-02T08:00:00Z"},
		"a step is damaged, another begins": {[]string{one, two[:700] + "\n", three}, "", "a record is damaged: " + two[:80] + "…"},
		"a step is damaged for good":        {append([]string{one, two[:700] + "\n"}, strings.Repeat(log, patienceLines+1)), "", "a record is damaged: " + two[:80] + "…"},
	} {
		got, err := ids(c.log...)
		if err != nil && err.Error() != c.err || err == nil && c.err != "" || got != c.want {
			t.Errorf("%s: %q, %v; want %q, %s", name, got, err, c.want, c.err)
		}
	}
}

// However a log is cut off, and from wherever it is read again, each step is there once.
func TestNoStepIsLostOrDoubledByReadingAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lines []string
		n := rapid.IntRange(1, 12).Draw(t, "steps")
		var want []string
		for i := 1; i <= n; i++ {
			text := must.Get(json.Marshal(loop.Step{ID: fmt.Sprintf("d-%06d", i), Time: t0.Add(time.Duration(i) * time.Second)}))(t)
			lines = append(lines, string(text)+"\n")
			want = append(want, fmt.Sprint(i))
			if rapid.Bool().Draw(t, "noise") {
				lines = append(lines, "level=INFO\n")
			}
		}
		var parts []string
		for seen := 0; seen < len(lines); { // the next part begins where lines are known, or before
			from := rapid.IntRange(0, seen).Draw(t, "from")
			to := rapid.IntRange(seen+1, len(lines)).Draw(t, "to")
			text := strings.Join(lines[from:to], "")
			if to < len(lines) {
				text += lines[to][:rapid.IntRange(0, len(lines[to])-1).Draw(t, "cut")]
			}
			parts, seen = append(parts, text), to
		}
		got, err := ids(parts...)
		for i := range want {
			want[i] = strings.TrimLeft(fmt.Sprintf("d-%06d", i+1), "d-0")
		}
		if err != nil || got != strings.Join(want, " ") {
			t.Fatalf("%q, %v; want %q of %q", got, err, want, parts)
		}
	})
}
