package trial

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// journal takes in what a Plimsoll prints that has its journal on standard output, from a pod's
// log, in which its own log is too. Steps have numbers that go up by one, so that none is counted
// twice however often the log is read, and none is missing without notice.
type journal struct {
	mu    sync.Mutex
	steps []*loop.Step
	lines bytes.Buffer // as they were printed
	err   error        // what cannot be fixed
	cut   []byte       // the beginning of a record that something was printed into
	since int          // lines since then
}

// begins is how a line begins that is a record, and no line of the log.
const begins = `{"id":"d-`

// piece is what container runtimes cut long lines into the multiples of. What is printed on
// standard error may come between two pieces.
const piece = 4096

// patienceLines is how many lines may come between the pieces of a record.
const patienceLines = 100

// take takes in a line of the log.
func (j *journal) take(line []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	switch {
	case bytes.HasPrefix(line, []byte(begins)):
		if j.cut != nil {
			j.fail("a record is damaged: %.80s…", j.cut)
		}
		if s := record(line); s != nil {
			j.add(s, line)
			return
		}
		j.cut, j.since = bytes.Clone(line), 0
	case j.cut != nil:
		if j.since++; j.since > patienceLines {
			j.fail("a record is damaged: %.80s…", j.cut)
			return
		}
		j.repair(line)
	}
}

// repair joins a record that other lines came into: what follows a piece of it is the log's.
func (j *journal) repair(line []byte) {
	for at := piece; at < len(j.cut); at += piece {
		whole := append(bytes.Clone(j.cut[:at]), line...)
		if s := record(whole); s != nil {
			j.cut = nil
			j.add(s, whole)
			return
		}
	}
}

// record is the step of a line, or nil.
func record(line []byte) *loop.Step {
	var s loop.Step
	if err := json.Unmarshal(line, &s); err != nil || s.ID == "" || s.Time.IsZero() {
		return nil
	}
	return &s
}

// add adds a step, if it is the next one. One that is there already is what a log repeats that is
// read again.
func (j *journal) add(s *loop.Step, line []byte) {
	n, err := strconv.Atoi(strings.TrimPrefix(s.ID, "d-"))
	have := len(j.steps)
	switch {
	case err != nil || n < 1:
		j.fail("a step has the id %q", s.ID)
	case n <= have && j.steps[n-1].Time.Equal(s.Time):
	case n <= have:
		j.fail("Plimsoll has begun anew: step %s is of %s, and was of %s", s.ID, s.Time.Format(time.RFC3339), j.steps[n-1].Time.Format(time.RFC3339))
	case n > have+1:
		j.fail("steps d-%06d to d-%06d are missing from the log", have+1, n-1)
	default:
		j.steps = append(j.steps, s)
		j.lines.Write(bytes.TrimRight(line, "\n"))
		j.lines.WriteByte('\n')
	}
}

// fail keeps the first thing that is wrong.
func (j *journal) fail(format string, args ...any) {
	if j.err == nil {
		j.err = fmt.Errorf(format, args...)
	}
	j.cut = nil
}

// each reads the steps that there are.
func (j *journal) each(read func(*loop.Step) error) error {
	j.mu.Lock()
	steps, err := j.steps[:len(j.steps):len(j.steps)], j.err
	j.mu.Unlock()
	if err != nil {
		return err
	}
	for _, s := range steps {
		if err := read(s); err != nil {
			return err
		}
	}
	return nil
}

// text is what was printed.
func (j *journal) text() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return bytes.Clone(j.lines.Bytes())
}

// from is the time from which on the log is to be read.
func (j *journal) from() *metav1.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cut = nil // what was cut off comes again
	if len(j.steps) == 0 {
		return nil
	}
	// A line is printed after its step's time. It may have been printed by a clock that is not
	// ours.
	t := metav1.NewTime(j.steps[len(j.steps)-1].Time.Add(-time.Minute))
	return &t
}

// follow reads a pod's log until the context is done, and begins again wherever it ends: API
// servers and kubelets cut off what they are asked to follow.
func (j *journal) follow(ctx context.Context, c *Cluster, namespace, pod, container string) {
	for ctx.Err() == nil {
		log, err := c.Logs(ctx, namespace, pod, &corev1.PodLogOptions{Container: container, Follow: true, SinceTime: j.from()})
		if err == nil {
			stop := context.AfterFunc(ctx, func() { _ = log.Close() })
			j.read(log)
			stop()
			_ = log.Close() // only read
		}
		if pause(ctx, glance) != nil {
			return
		}
	}
}

// read takes in what a log has until it ends. A last line that is cut off comes again.
func (j *journal) read(log io.Reader) {
	for in := bufio.NewReader(log); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		j.take(line)
	}
}

// known wants a step that has seen the machines.
func (j *journal) known() error {
	found := false
	err := j.each(func(s *loop.Step) error {
		found = found || s.Observed.Cost.Known
		return nil
	})
	if err == nil && !found {
		err = errors.New("no step has seen the machines")
	}
	return err
}

// covers wants a step from a time on.
func (j *journal) covers(t time.Time) error {
	found := false
	err := j.each(func(s *loop.Step) error {
		found = found || !s.Time.Before(t)
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no step is of %s or later", t.Format(time.TimeOnly))
	}
	return err
}
