package operator

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestTroubleThatGoesOnIsToldNowAndThen(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var tr trouble
	for i := range 100 {
		tr.tell(log, fmt.Errorf("not followed for %ds", i), t0.Add(time.Duration(i)*time.Second))
	}
	tr.tell(log, errors.New("forbidden"), t0.Add(101*time.Second))
	tr.tell(log, nil, t0.Add(102*time.Second))
	tr.tell(log, nil, t0.Add(103*time.Second))
	if got := strings.Count(out.String(), "\n"); got != 4 {
		t.Errorf("%d lines, want one at once, one after a minute, one of what is new, and one of the end\n%s", got, out.String())
	}
}

func TestStepsGoByTheirTicks(t *testing.T) {
	const interval = 5 * time.Second
	ms := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Millisecond) }
	for _, c := range []struct {
		name      string
		last      int // milliseconds after the first step
		now, want int
	}{
		{"a little after its tick", 25_000, 30_001, 30_000},
		{"a little before it", 25_000, 29_999, 30_000},
		{"after a while in which signals were measured", 25_000, 31_200, 30_000},
		{"so late that the clock counts", 25_000, 31_300, 31_300},
		{"after a step that something woke at the same moment", 30_000, 30_001, 30_001},
		{"after one that was woken before the tick", 29_990, 30_001, 30_000},
		{"nowhere near a tick", 25_000, 27_000, 27_000},
	} {
		term := &term{Config: Config{Interval: interval}, ticks: t0, last: ms(c.last)}
		if got := term.onTime(ms(c.now)); !got.Equal(ms(c.want)) {
			t.Errorf("%s: %s is taken for %s", c.name, ms(c.now).Sub(t0), got.Sub(t0))
		}
	}
}

// Ticks are reckoned anew from where they come: once the first step had to wait, a step was late,
// or the clock was set.
func TestTicksAreFoundAgain(t *testing.T) {
	term := &term{Config: Config{Interval: 10 * time.Second}}
	for i, c := range []struct{ now, want time.Duration }{
		{3 * time.Second, 3 * time.Second},
		{13*time.Second + time.Millisecond, 13 * time.Second},
		{26 * time.Second, 26 * time.Second}, // late
		{33 * time.Second, 33 * time.Second},
		{43*time.Second + time.Millisecond, 43 * time.Second},
		{time.Hour, time.Hour}, // put forward
		{time.Hour + 10*time.Second - time.Millisecond, time.Hour + 10*time.Second},
		{-time.Hour, -time.Hour}, // and back
		{-time.Hour + 10*time.Second + time.Millisecond, -time.Hour + 10*time.Second},
	} {
		got := term.onTime(t0.Add(c.now))
		if !got.Equal(t0.Add(c.want)) {
			t.Errorf("step %d: %s is taken for %s", i, c.now, got.Sub(t0))
		}
		term.last = got
	}
}
