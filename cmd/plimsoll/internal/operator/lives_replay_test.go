package operator

import (
	"bytes"
	"io"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/recording"
)

// segments are what a life records.
type segments struct {
	recording.Recorder
	all []*bytes.Buffer
}

// decidesAgain reports whether a life is recorded and decided again: one of four. It takes two
// fifths of the time of all else, and all lives are recorded by the same code.
func decidesAgain(seed uint64) bool { return seed%4 == 0 }

// record has the life recorded from its first step on.
func (l *life) record() {
	if !decidesAgain(l.seed) {
		return
	}
	s := &segments{}
	s.Open = func(time.Time) (io.WriteCloser, error) {
		s.all = append(s.all, &bytes.Buffer{})
		return noClose{s.all[len(s.all)-1]}, nil
	}
	l.segments, l.cfg.Recording = s, s
}

type noClose struct{ io.Writer }

func (noClose) Close() error { return nil }

// decideAgain decides all steps of the life again by what was recorded. Each must come to the
// same.
func (l *life) decideAgain() {
	if l.segments == nil {
		return
	}
	if err := l.segments.Close(); err != nil {
		l.fault("recording: %v", err)
	}
	var replay recording.Replay
	for i, segment := range l.segments.all {
		err := recording.Read(segment, func(m *recording.Moment) error {
			if _, same, err := replay.Decide(m); err != nil || !same {
				l.fault("%s of %s, decided again, comes to something else: %v", m.Step.ID, m.Step.Time.Sub(t0), err)
			}
			return nil
		})
		if err != nil {
			l.fault("segment %d: %v", i, err)
		}
	}
	if !replay.Whole() {
		l.fault("the recording does not begin with a term")
	}
}
