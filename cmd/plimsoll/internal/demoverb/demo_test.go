package demoverb

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/hull"
	"github.com/plimsoll/plimsoll/testbed/demo"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// watched is a screen that a test presses keys on.
type watched struct {
	*screen
	t   *testing.T
	now time.Time
}

func watch(t *testing.T, length time.Duration) *watched {
	t.Helper()
	s := must.Get(demo.New(demo.Config{Seed: 1, Length: length}))(t)
	return &watched{newScreen(t.Context(), s, demoOptions{speed: demoSpeed, seed: 1}, hull.NoColour), t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
}

// beats lets so many beats pass, and returns the last command.
func (w *watched) beats(n int) (cmd tea.Cmd) {
	w.t.Helper()
	for range n {
		w.now = w.now.Add(beat)
		_, cmd = w.Update(beatMsg(w.now))
		_, cmd = w.Update(cmd())
	}
	return cmd
}

// type presses keys, and returns the last command.
func (w *watched) press(keys ...string) (cmd tea.Cmd) {
	codes := map[string]tea.KeyPressMsg{
		"space": {Code: tea.KeySpace, Text: " "}, "esc": {Code: tea.KeyEscape}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
		"left": {Code: tea.KeyLeft}, "right": {Code: tea.KeyRight}, "up": {Code: tea.KeyUp}, "down": {Code: tea.KeyDown},
	}
	for _, k := range keys {
		msg, special := codes[k]
		if !special {
			msg = tea.KeyPressMsg{Code: rune(k[0]), Text: k}
		}
		_, cmd = w.Update(msg)
	}
	return cmd
}

func (w *watched) shows(want string) {
	w.t.Helper()
	if got := w.View().Content; !strings.Contains(got, want) {
		w.t.Errorf("the screen does not show %q:\n%s", want, got)
	}
}

func quits(cmd tea.Cmd) bool {
	if cmd == nil {
		return false
	}
	_, quit := cmd().(tea.QuitMsg)
	return quit
}

func TestTimeOnTheScreenFollowsTheWall(t *testing.T) {
	w := watch(t, 24*time.Hour)
	w.shows("Mon 06:00:00  960x")
	w.shows("pve3  12 % of 16 vCPU") // there is a picture before time goes on
	w.beats(25)                      // a second
	w.shows("Mon 06:16:00  960x")
	w.press("space")
	w.shows("06:16:00  paused")
	w.beats(10)
	w.shows("06:16:00  paused")
	w.press("space", "+")
	w.shows("06:16:00  1920x")
	w.beats(25)
	w.shows("06:48:00  1920x")
	w.now = w.now.Add(time.Hour) // the terminal was stopped
	w.beats(1)
	w.shows("06:49:16  1920x")
}

func TestSpeedStaysBetweenAMinuteASecondAndMax(t *testing.T) {
	w := watch(t, time.Hour)
	for range 20 {
		w.press("-")
	}
	w.shows("06:00:00  60x")
	for range 20 {
		w.press("+")
	}
	w.shows("06:00:00  max")
	w.beats(1)
	w.shows("06:10:00  max")
	w.press("-")
	w.shows("15360x")
}

func TestScreenFitsTheTerminal(t *testing.T) {
	w := watch(t, time.Hour)
	for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}, {1, 1}} {
		w.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		for _, page := range []string{"", "?", "e", "f"} {
			if page != "" {
				w.press("esc", page)
			}
			lines := strings.Split(w.View().Content, "\n")
			if len(lines) != size[1] {
				t.Errorf("page %q has %d lines on %d × %d", page, len(lines), size[0], size[1])
			}
			if i := slices.IndexFunc(lines, func(l string) bool { return len([]rune(l)) > size[0] }); i >= 0 {
				t.Errorf("page %q is too wide for %d × %d: %q", page, size[0], size[1], lines[i])
			}
		}
	}
}

func TestFaultsArePickedFromAMenu(t *testing.T) {
	w := watch(t, 24*time.Hour)
	w.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	w.beats(1)
	w.press("f")
	w.shows("break what? 1 a host  2 a clone  3 the metrics  esc nothing")
	w.press("f", "?") // a key that is no fault's closes the menu and does what it does
	w.shows("double the prices, and back")
	w.press("?", "f", "esc")
	w.beats(1)
	w.press("f", "3")
	w.shows("? help")
	w.beats(1)
	w.shows("! no metric can be read for 10m")
	w.beats(5)
	w.shows("p90 unknown ?")
	for range len([]string{"pve1", "pve2", "pve3"}) {
		w.press("f", "1")
		w.beats(1)
	}
	w.beats(3)
	w.shows("✗ DOWN")
	w.press("f", "1")
	w.beats(1)
	w.shows("✗ no host is left to die")
}

func TestPricesDoubleAndComeBack(t *testing.T) {
	w := watch(t, time.Hour)
	w.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
	w.beats(1)
	w.shows("static €0.302/h")
	w.press("p")
	w.beats(1)
	w.shows("(×2 !), static €0.605/h")
	w.shows("€ everything costs twice as much from now on")
	w.press("p")
	w.beats(1)
	w.shows(", static €0.302/h")
	w.shows("€ prices are back to what they were")
}

func TestExplanationsAreReadAndLeafedThrough(t *testing.T) {
	w := watch(t, 24*time.Hour)
	w.press("e")
	w.shows("Nothing has been decided yet")
	w.press("e", "+", "+", "+", "+")
	w.beats(20) // some three hours
	w.press("e")
	last := w.decided[len(w.decided)-1]
	w.shows("Decision " + last.ID)
	w.shows("more lines below")
	w.beats(20)
	w.shows("Decision " + last.ID) // it stays, while time goes on
	w.press("down", "down")
	if strings.Contains(w.View().Content, "Decision "+last.ID) {
		t.Error("the explanation does not scroll")
	}
	w.press("up", "up")
	w.shows("Decision " + last.ID)
	w.press("left")
	w.shows("Decision " + w.decided[w.shown].ID)
	if w.decided[w.shown].ID >= last.ID {
		t.Errorf("left of %s is %s", last.ID, w.decided[w.shown].ID)
	}
	for range 200 {
		w.press("right")
	}
	w.shows("Decision " + w.decided[len(w.decided)-1].ID)
	w.press("esc")
	w.shows("load line: the host")
}

func TestHelpNamesEveryKey(t *testing.T) {
	w := watch(t, time.Hour)
	w.Update(tea.WindowSizeMsg{Width: 120, Height: 60})
	w.press("?")
	for _, want := range []string{"space", "+ -", "f ", "p ", "e ", "q "} {
		w.shows("\n" + want)
	}
	w.press("?")
	w.shows("⊖ load line")
}

func TestScreenEndsWithTheDayOrWhenItIsToldTo(t *testing.T) {
	w := watch(t, time.Minute)
	if cmd := w.beats(2); !quits(cmd) {
		t.Error("the day is over and the screen stays")
	}
	w = watch(t, time.Hour)
	for _, key := range []string{"q", "ctrl+c"} {
		for _, page := range []string{"?", "e", "f"} {
			w.press("esc", page)
			if !quits(w.press(key)) {
				t.Errorf("%s on page %s does not quit", key, page)
			}
		}
	}
}

func TestNobodyTouchesTheSessionAfterTheScreen(t *testing.T) {
	w := watch(t, time.Hour)
	_, late := w.Update(beatMsg(w.now))
	w.close()
	before := w.session.Elapsed()
	if msg := late(); msg != nil || w.session.Elapsed() != before {
		t.Errorf("a late command lived the session on from %s to %s", before, w.session.Elapsed())
	}
}

func TestTerminalsThatCannotBeDrawnOnGetLines(t *testing.T) {
	for name, env := range map[string]*cli.Env{
		"dumb": {IsTerminal: true, HasKeys: true, Getenv: func(string) string { return "dumb" }},
		"keys": {IsTerminal: true, Getenv: func(string) string { return "" }},
		"file": {HasKeys: true, Getenv: func(string) string { return "" }},
	} {
		var out strings.Builder
		env.Args, env.Stdin, env.Stdout, env.Stderr, env.Now = []string{"demo", "--for", "1s", "--speed", "max"}, strings.NewReader(""), &out, &out, time.Now
		code := cli.Run(t.Context(), env, New)
		if code != cli.ExitDone || strings.Contains(out.String(), "\x1b") || !strings.Contains(out.String(), "simulated       16m, seed 1: ") {
			t.Errorf("%s: exits with %d:\n%s", name, code, out.String())
		}
	}
}

// TestPacedDemoKeepsTheWallsTime lives a minute at 120 times life, on a wall that a test moves.
func TestPacedDemoKeepsTheWallsTime(t *testing.T) {
	s := must.Get(demo.New(demo.Config{Seed: 1, Length: time.Minute}))(t)
	wall := time.Unix(0, 0)
	env := &cli.Env{Now: func() time.Time { wall = wall.Add(100 * time.Millisecond); return wall }}
	beats := 0
	must.Do(t, live(t.Context(), env, s, 120, func([]demo.Event) error { beats++; return nil }))
	if beats != 5 {
		t.Errorf("a minute at 120x took %d tenths of a second, want 5", beats)
	}
}

func TestStoppedDemosSumUpOrSayHowFarTheyCame(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"demo", "--speed", "max"}, cli.ExitDone, "simulated       0s, seed 1: 0 requests, 0 failed"},
		{[]string{"demo", "-o", "json"}, cli.ExitFailed, "plimsoll: stopped after 0s of 24h"},
	} {
		var out strings.Builder
		code := cli.Run(stopped, &cli.Env{Args: c.args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Getenv: func(string) string { return "" }, Now: time.Now}, New)
		if code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v exits with %d:\n%s\nwant %d and %q", c.args, code, out.String(), c.code, c.want)
		}
	}
}
