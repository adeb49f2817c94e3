package pvesim

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func newEngine() *engine {
	return &engine{now: time.Unix(0, 0), kick: make(chan struct{}, 1), over: make(chan struct{})}
}

func TestProcessesWaitInOrderOfTheirTime(t *testing.T) {
	e := newEngine()
	var got []string
	say := func(what string) { got = append(got, fmt.Sprintf("%s@%d", what, e.now.Unix())) }
	var l flock
	e.with(func() {
		e.start(func(p *process) {
			p.lock(&l, time.Second)
			defer l.unlock()
			say("locked")
			p.sleep(5 * time.Second)
			say("unlocking")
		})
		e.start(func(p *process) {
			if !p.lock(&l, 2*time.Second) {
				say("gave up")
			}
		})
		e.start(func(p *process) {
			if p.lock(&l, 10*time.Second) {
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
	e := newEngine()
	e.do(func(p *process) { p.sleep(time.Hour) })
	if got := e.now.Sub(time.Unix(0, 0)); got != time.Hour {
		t.Errorf("%s have passed, want 1h", got)
	}
}

func TestKilledProcessRunsItsDeferredCalls(t *testing.T) {
	e := newEngine()
	tidied := false
	e.with(func() {
		e.start(func(p *process) {
			defer func() { tidied = true }()
			p.sleep(time.Hour)
			t.Error("it went on")
		})
	})
	e.Close()
	if !tidied || len(e.procs) != 0 {
		t.Errorf("tidied %t, %d processes left", tidied, len(e.procs))
	}
}

func TestTimeFollowsTheWallClock(t *testing.T) {
	e := newEngine()
	e.speed, e.wall = 1000, time.Now()
	go e.follow()
	defer e.Close()
	started := time.Now()
	e.do(func(p *process) { p.sleep(20 * time.Second) })
	if took := time.Since(started); took < 20*time.Millisecond {
		t.Errorf("20 s at 1000 times the speed were over after %s", took)
	}
}
