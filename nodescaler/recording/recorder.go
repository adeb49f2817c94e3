package recording

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/podscaler"
)

// Every is how long a segment lasts.
const Every = 10 * time.Minute

// Recorder writes moments. Open begins a segment; nothing else writes to what it returns. Its
// method Discard, if it has one, removes a segment that nothing could be written to, as on a full
// disk: each step tries anew.
type Recorder struct {
	Open func(at time.Time) (io.WriteCloser, error)

	file   io.WriteCloser
	out    *gzip.Writer // nil between segments
	zip    *gzip.Writer // of all segments: to make one is as much work as to write some of them
	until  time.Time
	was    picture
	memory Remembered
	nodes  *nodepolicy.Spec
}

// Forget notes that the next step remembers nothing, or what outlives a jump of the clock, and by
// which policy it decides on machines.
func (r *Recorder) Forget(kept Remembered, nodes *nodepolicy.Spec) { r.memory, r.nodes = kept, nodes }

// Append writes a step, and what it was decided by. After an error the next one begins a segment.
func (r *Recorder) Append(o *loop.Observation, in *loop.Intent, s *loop.Step) error {
	if err := r.append(o, in, s); err != nil {
		r.memory = Missed
		return errors.Join(fmt.Errorf("recording: %w", err), r.Close())
	}
	return nil
}

func (r *Recorder) append(o *loop.Observation, in *loop.Intent, s *loop.Step) error {
	now, err := pictureOf(o, in)
	if err != nil {
		return err
	}
	full := r.out == nil || !o.Time.Before(r.until) || r.memory != ""
	if full {
		if err := r.begin(o.Time); err != nil {
			return err
		}
	}
	digest, err := Digest(s)
	if err != nil {
		return err
	}
	l := &line{
		Full: full, Time: o.Time, Memory: r.memory, ClusterErr: errorText(o.ClusterErr), MachinesErr: errorText(o.MachinesErr),
		Delta: now.diff(&r.was), Step: *s, Digest: digest,
	}
	l.Step.Observed, l.Step.Snapshot = loop.Observed{}, nil
	if full {
		l.Version, l.Nodes = version, r.nodes
	}
	l.Delta.Windows, l.Delta.Sizes, l.Delta.Uses = windows(o.Windows), o.Sizes, usesOf(o)
	l.Delta.Histories = o.Histories
	if err := r.write(l); err != nil {
		if full {
			r.discard()
		}
		return err
	}
	r.was, r.memory = *now, ""
	return nil
}

// usesOf are what those pods use whose sizes are looked at.
func usesOf(o *loop.Observation) map[string][]podscaler.ContainerUse {
	if len(o.Sizes) == 0 || o.Uses == nil {
		return nil
	}
	uses := make(map[string][]podscaler.ContainerUse, len(o.Sizes))
	for pod := range o.Sizes {
		if u, known := o.Uses[pod]; known {
			uses[pod] = u
		}
	}
	return uses
}

// write writes a line through to the file: what a crash loses is the line that it comes in.
func (r *Recorder) write(l *line) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if _, err := r.out.Write(append(data, '\n')); err != nil {
		return err
	}
	return r.out.Flush()
}

// begin begins a segment.
func (r *Recorder) begin(at time.Time) error {
	if err := r.Close(); err != nil {
		return err
	}
	file, err := r.Open(at)
	if err != nil {
		return err
	}
	if r.zip == nil {
		r.zip = gzip.NewWriter(nil)
	}
	r.zip.Reset(file)
	r.file, r.out, r.until = file, r.zip, at.Add(Every)
	return nil
}

// discard ends a segment that holds nothing.
func (r *Recorder) discard() {
	segment, can := r.file.(interface{ Discard() error })
	_ = r.Close() // it fails as the write did
	if can {
		_ = segment.Discard()
	}
}

// Close ends the segment.
func (r *Recorder) Close() error {
	if r.out == nil {
		return nil
	}
	err := errors.Join(r.out.Close(), r.file.Close())
	r.out, r.file, r.was = nil, nil, picture{}
	return err
}
