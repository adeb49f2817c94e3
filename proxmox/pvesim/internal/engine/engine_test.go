package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestProcessesWaitInOrderOfTheirTime(t *testing.T) {
	e := New(time.Unix(0, 0), 0)
	var got []string
	say := func(what string) { got = append(got, fmt.Sprintf("%s@%d", what, e.Clock.Unix())) }
	var l Flock
	e.With(func() {
		e.Start(func(p *Process) {
			p.Lock(&l, time.Second)
			defer l.Unlock()
			say("locked")
			p.Sleep(5 * time.Second)
			say("unlocking")
		})
		e.Start(func(p *Process) {
			if !p.Lock(&l, 2*time.Second) {
				say("gave up")
			}
		})
		e.Start(func(p *Process) {
			if p.Lock(&l, 10*time.Second) {
				say("took over")
			}
		})
	})
	e.Advance(time.Minute)
	if want, got := "locked@0 gave up@2 unlocking@5 took over@5", strings.Join(got, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if len(e.procs) != 0 {
		t.Errorf("%d processes are left", len(e.procs))
	}
}

func TestDoReturnsWhenItsProcessIsOver(t *testing.T) {
	e := New(time.Unix(0, 0), 0)
	e.Do(func(p *Process) { p.Sleep(time.Hour) })
	if got := e.Clock.Sub(time.Unix(0, 0)); got != time.Hour {
		t.Errorf("%s have passed, want 1h", got)
	}
}

func TestKilledProcessRunsItsDeferredCalls(t *testing.T) {
	e := New(time.Unix(0, 0), 0)
	tidied := false
	e.With(func() {
		e.Start(func(p *Process) {
			defer func() { tidied = true }()
			p.Sleep(time.Hour)
			t.Error("it went on")
		})
	})
	e.Close()
	if !tidied || len(e.procs) != 0 {
		t.Errorf("tidied %t, %d processes left", tidied, len(e.procs))
	}
}

func TestTimeFollowsTheWallClock(t *testing.T) {
	e := New(time.Unix(0, 0), 1000)
	e.Begin()
	defer e.Close()
	started := time.Now()
	e.Do(func(p *Process) { p.Sleep(20 * time.Second) })
	if took := time.Since(started); took < 20*time.Millisecond {
		t.Errorf("20 s at 1000 times the speed were over after %s", took)
	}
}
