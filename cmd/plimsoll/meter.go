package main

import (
	"fmt"
	"time"

	"github.com/plimsoll/plimsoll/testbed"
)

// meter tells how far the runs are: on a terminal in one line that is written again and again,
// otherwise in a line every ten seconds.
type meter struct {
	env     *Env
	quiet   bool
	started time.Time
	heard   chan testbed.Progress
	ended   chan testbed.Progress
}

func newMeter(env *Env, quiet bool) *meter {
	m := &meter{env: env, quiet: quiet, started: env.Now(), heard: make(chan testbed.Progress), ended: make(chan testbed.Progress)}
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
		fmt.Fprintf(m.env.Stderr, "%d runs, %s in %s\n", p.Done, requests(p.Requests, took), took.Round(100*time.Millisecond))
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
	left := time.Duration(float64(took) * (1 - p.Part) / p.Part)
	line := fmt.Sprintf("%d of %d runs, %s, about %s left", p.Done, p.Total, requests(p.Requests, took), left.Round(time.Second))
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
		fmt.Fprint(m.env.Stderr, "\r\x1b[K")
	}
}

func requests(n int, took time.Duration) string {
	if n < 1e5 {
		return fmt.Sprintf("%d requests", n)
	}
	return fmt.Sprintf("%.1f million requests (%.1f million a second)", float64(n)/1e6, float64(n)/1e6/max(took.Seconds(), 1e-3))
}
