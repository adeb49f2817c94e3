package copies

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// line is a way to an API server, as its watches see it.
type line struct {
	*watches
	version string
	synced  bool
}

const path = "/api/v1/pods"

// aLine is one that has been good for a while.
func aLine() *line {
	l := &line{watches: newWatches(30 * time.Second)}
	l.follow(path, func() (string, bool) { return l.version, l.synced })
	l.opened(path, true)
	l.version, l.synced = "1", true
	l.answered(nil)
	l.live(time.Minute)
	return l
}

// live lets time pass in which the API server is ready and a watch hears something now and then.
func (l *line) live(d time.Duration) {
	for range int(d / (5 * time.Second)) {
		time.Sleep(5 * time.Second)
		l.answered(nil)
		l.heard(path)
	}
}

func TestPictureIsFreshOnlyWhileAllOfItIs(t *testing.T) {
	ready := func(l *line, d time.Duration) { // the API server is ready, and that is all
		for range int(d / (5 * time.Second)) {
			time.Sleep(5 * time.Second)
			l.answered(nil)
		}
	}
	unready := func(l *line, d time.Duration) {
		for range int(d / (5 * time.Second)) {
			time.Sleep(5 * time.Second)
			l.answered(errors.New("not ready"))
		}
	}
	for _, c := range []struct {
		name  string
		after func(*line)
		stale string // a part of the error; none for fresh
	}{
		{"all is well", func(*line) {}, ""},
		{"nothing happens for hours, but bookmarks come", func(l *line) { l.live(3 * time.Hour) }, ""},
		{"a watch ends and is opened again", func(l *line) { l.closed(path); time.Sleep(time.Second); l.opened(path, false) }, ""},
		{"over and over", func(l *line) {
			for range 20 {
				l.closed(path)
				l.opened(path, false)
				l.live(10 * time.Second)
			}
		}, ""},
		{"a watch takes over from another", func(l *line) { l.opened(path, false); l.closed(path); l.live(time.Minute) }, ""},
		{"a watch ends and stays closed", func(l *line) { l.closed(path); ready(l, 35*time.Second) }, "has not been followed for 35s"},
		{"it is opened and ends at once, again and again", func(l *line) {
			l.closed(path)
			for range 40 {
				l.opened(path, false)
				time.Sleep(time.Second)
				l.closed(path)
				l.answered(nil)
			}
		}, "has not been followed"},
		{"it is opened after long, and has not caught up", func(l *line) { l.closed(path); ready(l, time.Hour); l.opened(path, false) }, "has not been followed for 1h0m"},
		{"and has", func(l *line) { l.closed(path); ready(l, time.Hour); l.opened(path, false); l.live(5 * time.Second) }, ""},
		{"it begins with a list after long, which is not there yet", func(l *line) { l.closed(path); ready(l, time.Hour); l.opened(path, true); l.live(5 * time.Second) }, "has not been followed for 1h0m"},
		{"and is", func(l *line) {
			l.closed(path)
			ready(l, time.Hour)
			l.opened(path, true)
			l.version = "2"
			l.live(5 * time.Second)
		}, ""},
		{"a watch is silent", func(l *line) { ready(l, 5*time.Minute) }, "has not been followed"},
		{"the server is not ready", func(l *line) { unready(l, 35*time.Second) }, "has not said for 35s that it is ready: not ready"},
		{"not for a moment", func(l *line) { unready(l, 20*time.Second) }, ""},
		{"nothing was asked for long", func(*line) { time.Sleep(time.Minute) }, "has not said for 1m0s that it is ready"},
		{"the server is ready again, for the first time", func(l *line) { unready(l, time.Minute); l.answered(nil) }, "that it is ready"},
		{"and the second", func(l *line) { unready(l, time.Minute); l.live(10 * time.Second) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := aLine()
				if err := l.fresh(); err != nil {
					t.Fatalf("before: %v", err)
				}
				c.after(l)
				err := l.fresh()
				if (err != nil) != (c.stale != "") || err != nil && (!errors.Is(err, ErrStale) || !strings.Contains(err.Error(), c.stale)) {
					t.Errorf("%v, want %q", err, c.stale)
				}
			})
		})
	}
}

func TestPictureIsNotFreshBeforeItIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &line{watches: newWatches(0)}
		l.follow(path, func() (string, bool) { return l.version, l.synced })
		expect := func(want string) {
			t.Helper()
			if err := l.fresh(); !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		expect("has not been read yet")
		l.synced = true
		expect("has not said yet that it is ready")
		l.answered(errors.New("starting"))
		expect("has not said yet that it is ready: starting")
		l.answered(nil)
		if err := l.fresh(); err != nil {
			t.Error(err)
		}
	})
}
