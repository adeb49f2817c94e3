package demoverb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/explain"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/hull"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/demo"
)

// screenDemo draws the session until it is over or its watcher has seen enough, and sums it up
// once the screen is gone.
func screenDemo(ctx context.Context, env *cli.Env, s *demo.Session, o demoOptions) error {
	with := hull.Colour
	if o.noColor || env.Getenv("NO_COLOR") != "" {
		with = hull.NoColour
	}
	m := newScreen(ctx, s, o, with)
	program := tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(env.Stdin), tea.WithOutput(cli.Unguarded(env.Stdout)), tea.WithoutSignalHandler())
	_, err := program.Run()
	m.close()
	if ctx.Err() == nil { // to be stopped is no failure
		if err := errors.Join(err, m.err); err != nil {
			return err
		}
	}
	return printSummary(env.Stdout, s.Summary(), o.journal)
}

// page is what the screen shows.
type page int

const (
	pageFleet page = iota
	pageHelp
	pageWhy // the explanation of a decision
	pageFault
)

// screen is the demo on a terminal. The session is only touched by the command that lives it on,
// of which there is one at a time: what keys ask of the session waits for the next one.
type screen struct {
	ctx     context.Context
	session *demo.Session
	with    hull.Paint

	// A command may still run, or be about to, when the program has ended: closed keeps it from
	// living the session on behind the back of whoever sums it up.
	living sync.Mutex
	closed bool

	width, height int
	frame         hull.Frame
	speed         pace
	paused, dear  bool
	wishes        []func(*demo.Session) error
	last          time.Time // when time last went on

	page    page
	from    int // the first line of a page of text
	decided []loop.Step
	shown   int // of decided, on pageWhy
	err     error
}

// beatMsg is the time to go on, progressMsg what came of it.
type (
	beatMsg     time.Time
	progressMsg struct {
		events  []demo.Event
		state   *demo.State
		decided []loop.Step
		done    bool
		err     error
	}
)

// The news that are kept, more than any screen has lines for.
const keptNews = 200

// keys is the foot of the fleet.
const keys = "? help  space pause  + - speed  f fault  p price  e explain  q quit"

func newScreen(ctx context.Context, s *demo.Session, o demoOptions, with hull.Paint) *screen {
	m := &screen{ctx: ctx, session: s, with: with, speed: o.speed, width: 80, height: 24}
	m.frame = hull.Frame{
		Title: o.title(),
		Keys:  keys,
	}
	m.show(s.State())
	return m
}

// title says what is shown, and where else.
func (o *demoOptions) title() string {
	title := fmt.Sprintf("plimsoll demo · everything is simulated · seed %d", o.seed)
	if o.url != "" {
		title += " · " + o.url
	}
	return title
}

// Init starts time.
func (m *screen) Init() tea.Cmd { return next() }

// next waits for the next beat.
func next() tea.Cmd { return tea.Tick(beat, func(t time.Time) tea.Msg { return beatMsg(t) }) }

// Update takes in what happens.
func (m *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case tea.KeyPressMsg:
		return m, m.press(msg.String())
	case beatMsg:
		return m, m.live(time.Time(msg))
	case progressMsg:
		return m, m.progress(msg)
	}
	return m, nil
}

// live lives the session on, for as long as has passed since the last time.
func (m *screen) live(now time.Time) tea.Cmd {
	wall := now.Sub(m.last)
	if m.last.IsZero() || wall > time.Second { // the first time, or the terminal was away
		wall = beat
	}
	m.last = now
	by := m.speed.of(wall)
	switch {
	case m.paused:
		by = 0
	case m.speed.unpaced():
		by = unpacedBeat
	}
	wishes := m.wishes
	m.wishes = nil
	return func() tea.Msg { return m.advance(by, wishes) }
}

// advance lives the session on. A wish that cannot be granted is news.
func (m *screen) advance(by time.Duration, wishes []func(*demo.Session) error) tea.Msg {
	m.living.Lock()
	defer m.living.Unlock()
	if m.closed {
		return nil
	}
	s := m.session
	var refused []demo.Event
	for _, wish := range wishes {
		if err := wish(s); err != nil {
			refused = append(refused, demo.Event{At: s.Now(), Kind: demo.Trouble, Text: err.Error()})
		}
	}
	events, err := s.Advance(m.ctx, by)
	return progressMsg{events: append(refused, events...), state: s.State(), decided: s.Decided(), done: s.Done(), err: err}
}

// close waits for the command that advances the session, and prevents further ones.
func (m *screen) close() {
	m.living.Lock()
	defer m.living.Unlock()
	m.closed = true
}

// progress takes in what has happened while time went on.
func (m *screen) progress(p progressMsg) tea.Cmd {
	if m.page != pageWhy { // what is being read stays
		m.decided = p.decided
	}
	for i := range p.events {
		e := &p.events[i]
		if e.State != nil {
			continue
		}
		sign := signOf(e.Kind)
		m.frame.News = append(m.frame.News, hull.News{At: e.At, Mark: sign.mark, Style: sign.style, Text: e.Text, Why: e.Why})
	}
	m.frame.News = m.frame.News[max(0, len(m.frame.News)-keptNews):]
	m.show(p.state)
	if m.err = p.err; m.err != nil || p.done {
		return tea.Quit
	}
	return next()
}

// show puts a state into the frame.
func (m *screen) show(s *demo.State) {
	f := &m.frame
	f.Time, f.Pending, f.Services = s.Time, s.Pending, s.Services
	f.Unit, f.Rate, f.Static, f.Spent, f.StaticSpent = s.Unit, s.Rate, s.Static, s.Spent, s.StaticSpent
	f.Dear, f.Hosts = s.Dear, s.Hosts
	f.Day = hull.Day{Start: s.Time.Add(-s.Elapsed), Rates: s.Day, Minutes: int(s.Length.Minutes()), Top: s.Peak}
}

// press does what a key asks for.
func (m *screen) press(key string) tea.Cmd {
	switch {
	case key == "q" || key == "ctrl+c":
		return tea.Quit
	case m.page == pageFault && m.chooseFault(key):
		return nil
	case key == "esc":
		m.turn(pageFleet)
		return nil
	case m.page != pageFleet && m.scroll(key):
		return nil
	}
	switch key {
	case "?":
		m.turn(pageHelp)
	case "e":
		m.shown = len(m.decided) - 1
		m.turn(pageWhy)
	case "f":
		m.turn(pageFault)
	case "space":
		m.paused = !m.paused
	case "+", "=":
		m.faster()
	case "-", "_":
		m.slower()
	case "p":
		m.dear = !m.dear
		dear := m.dear
		m.wishes = append(m.wishes, func(s *demo.Session) error { return s.DoublePrices(dear) })
	}
	return nil
}

// turn opens a page, or closes it if it is open.
func (m *screen) turn(to page) {
	if m.page == to {
		to = pageFleet
	}
	m.page, m.from = to, 0
}

// scroll moves within a page of text, and from one decision to the next.
func (m *screen) scroll(key string) bool {
	switch key {
	case "up", "k":
		m.from = max(0, m.from-1)
	case "down", "j":
		m.from = min(m.from+1, max(0, len(m.lines())+4-m.height))
	case "left", "h":
		m.shown, m.from = max(0, m.shown-1), 0
	case "right", "l":
		m.shown, m.from = min(len(m.decided)-1, m.shown+1), 0
	default:
		return false
	}
	return true
}

// chooseFault lets a fault happen, if the key is one's. Every key closes the page, and one that
// is no fault's and does not only close it is left to mean what it always does.
func (m *screen) chooseFault(key string) bool {
	m.page = pageFleet
	for i := range demo.Mishaps {
		if key == fmt.Sprint(i+1) {
			kind := demo.Mishaps[i].Kind
			m.wishes = append(m.wishes, func(s *demo.Session) error { return s.Inject(kind) })
			return true
		}
	}
	return key == "f" || key == "esc"
}

// The slowest and the fastest speed that keys lead to; beyond it is max.
const (
	slowest = pace(60)
	fastest = pace(15360)
)

func (m *screen) faster() {
	if m.speed *= 2; m.speed > fastest {
		m.speed = unpaced
	}
}

func (m *screen) slower() {
	if m.speed.unpaced() {
		m.speed = fastest
		return
	}
	m.speed = max(m.speed/2, min(slowest, m.speed))
}

// View draws the page.
func (m *screen) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen, v.WindowTitle = true, "plimsoll demo"
	return v
}

func (m *screen) draw() string {
	m.frame.Pace, m.frame.Notice = m.speed.String(), ""
	if m.paused {
		m.frame.Pace = "paused"
	}
	switch m.page {
	case pageHelp:
		return hull.Page("What the demo shows, and its keys", m.lines(), m.from, "↑ ↓ scroll · esc back", m.width, m.height, m.with)
	case pageWhy:
		return hull.Page("Why", m.lines(), m.from, "↑ ↓ scroll · ← → other decisions · esc back", m.width, m.height, m.with)
	case pageFault:
		m.frame.Notice = faultMenu()
	case pageFleet:
	}
	return hull.Draw(&m.frame, m.width, m.height, m.with)
}

// lines is the text of the page that is open.
func (m *screen) lines() []string {
	switch {
	case m.page == pageHelp:
		return helpLines()
	case m.shown >= 0 && m.shown < len(m.decided):
		return explain.Tree(&m.decided[m.shown]).Lines(m.width)
	}
	return []string{"Nothing has been decided yet: the first step after a start only looks."}
}

func faultMenu() string {
	var parts []string
	for i, f := range demo.Mishaps {
		parts = append(parts, fmt.Sprintf("%d %s", i+1, f.Short))
	}
	return "break what? " + strings.Join(parts, "  ") + "  esc nothing"
}

func helpLines() []string {
	lines := append(demo.Setting(), "",
		"Each host is a hull. Its cargo is the machines on it, stacked from the keel up; ▓ is what",
		"their pods ask for, ~ is paid for and free, · is not a node yet or no more. ⊖ is the load",
		"line: what the host may promise to machines. Above it a hull turns red and says so with a !.",
		"On top is the day's load. The static fleet is the cheapest one that would hold every",
		"objective through the busiest minutes, kept all day.",
		"",
		"space  pause, and go on",
		"+ -    twice as fast, half as fast",
		"f      let something go wrong:")
	for i, f := range demo.Mishaps {
		lines = append(lines, fmt.Sprintf("         %d  %s", i+1, f.Text))
	}
	return append(lines,
		"p      double the prices, and back",
		"e      explain the last decision; ← → walk through the others",
		"q      quit; what has come of the day is printed then")
}
