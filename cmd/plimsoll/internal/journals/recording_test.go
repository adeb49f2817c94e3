package journals

import (
	"io"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// fullDisk is a segment that takes some bytes, and no more.
type fullDisk struct{ *segment }

func (d fullDisk) Write(data []byte) (int, error) {
	n, _ := d.segment.Write(data[:min(4, len(data))])
	return n, syscall.ENOSPC
}

// On a full disk each step tries anew. It leaves no file of its own.
func TestAFullDiskLeavesOneFile(t *testing.T) {
	t.Parallel()
	f := must.Get(OpenRecording(t.TempDir(), 1<<30))(t)
	full := false
	r := recording.Recorder{Open: func(at time.Time) (io.WriteCloser, error) {
		file, err := f.Open(at)
		if full && err == nil {
			return fullDisk{file.(*segment)}, nil
		}
		return file, err
	}}
	o := &loop.Observation{Time: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)}
	step := func() error {
		o.Time = o.Time.Add(time.Minute)
		return r.Append(o, &loop.Intent{}, &loop.Step{ID: "d-000001", Time: o.Time})
	}
	must.Do(t, step())
	full = true
	must.Do(t, r.Close())
	for range 5 {
		if step() == nil {
			t.Error("a full disk is no error")
		}
	}
	if names := must.Get(segmentNames(f.path))(t); len(names) != 1 {
		t.Errorf("there are %v", names)
	}
	full = false
	must.Do(t, step())
	moments := 0
	must.Do(t, r.Close())
	must.Do(t, ReadRecording(f.path, func(*recording.Moment) error { moments++; return nil }))
	if moments != 2 {
		t.Errorf("%d moments are read, want 2", moments)
	}
}
