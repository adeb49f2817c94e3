package testbedverb

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed"
)

// meter prints how far the runs are: on a terminal in one line that is written again and again,
// otherwise in a line every ten seconds.
type meter struct {
	env     *cli.Env
	quiet   bool
	what    string // is counted
	started time.Time
	heard   chan testbed.Progress
	ended   chan testbed.Progress
}

func newMeter(env *cli.Env, quiet bool) *meter { return newMeterOf("requests", env, quiet) }

// newMeterOf counts what there is in place of requests.
func newMeterOf(what string, env *cli.Env, quiet bool) *meter {
	m := &meter{env: env, quiet: quiet, what: what, started: env.Now(), heard: make(chan testbed.Progress), ended: make(chan testbed.Progress)}
	go m.listen()
	return m
}

// hear takes in how far it is.
func (m *meter) hear(p testbed.Progress) { m.heard <- p }

// stop says what was done in all, and returns how long it took.
func (m *meter) stop() time.Duration {
	close(m.heard)
	p := <-m.ended
	took := m.env.Now().Sub(m.started)
	if !m.quiet {
		m.clear()
		fmt.Fprintf(m.env.Stderr, "%d runs, %s in %s\n", p.Done, m.amount(p.Requests, took), took.Round(100*time.Millisecond))
	}
	return took
}

func (m *meter) listen() {
	var last testbed.Progress
	every := 10 * time.Second
	if m.env.StderrIsTerminal {
		every = 200 * time.Millisecond
	}
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case p, more := <-m.heard:
			if !more {
				m.ended <- last
				return
			}
			last = p
		case <-ticker.C:
			if !m.quiet && last.Total > 0 {
				m.say(last)
			}
		}
	}
}

func (m *meter) say(p testbed.Progress) {
	took := m.env.Now().Sub(m.started)
	line := fmt.Sprintf("%d of %d runs, %s", p.Done, p.Total, m.amount(p.Requests, took))
	if p.Part > 0 {
		left := time.Duration(float64(took) * (1 - p.Part) / p.Part)
		line += fmt.Sprintf(", about %s left", left.Round(time.Second))
	}
	if m.env.StderrIsTerminal {
		m.clear()
		fmt.Fprint(m.env.Stderr, line)
		return
	}
	fmt.Fprintln(m.env.Stderr, line)
}

// clear empties the line that a terminal shows.
func (m *meter) clear() {
	if m.env.StderrIsTerminal {
		fmt.Fprint(cli.Unguarded(m.env.Stderr), "\r\x1b[K")
	}
}

// amount says how much was done of what is counted, and how fast.
func (m *meter) amount(n int, took time.Duration) string {
	if n < 1e5 {
		return fmt.Sprintf("%d %s", n, m.what)
	}
	speed := float64(n) / max(took.Seconds(), 1e-3)
	if speed < 1e5 {
		return fmt.Sprintf("%.1f million %s (%.0f a second)", float64(n)/1e6, m.what, speed)
	}
	return fmt.Sprintf("%.1f million %s (%.1f million a second)", float64(n)/1e6, m.what, speed/1e6)
}
