package kubelet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/testbed/lab"
)

// container is one container of a pod, from the first start of its process to the last end.
type container struct {
	pod    *pod
	object *corev1.Pod // as it was when the container was made
	spec   *corev1.Container

	asked atomic.Bool
	grace atomic.Int64
	leave chan struct{} // closed when it is to end
	over  chan struct{} // closed when it has, and no process of it is left

	mu     sync.Mutex // guards what follows
	state  corev1.ContainerState
	last   corev1.ContainerState
	ready  bool
	starts int32
	id     string
}

// newContainer goes on where the pod's status ends: what ran before this process did not outlive
// it.
func (p *pod) newContainer(o *corev1.Pod, spec *corev1.Container) *container {
	c := &container{
		pod: p, object: o, spec: spec, leave: make(chan struct{}), over: make(chan struct{}),
		state: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}},
	}
	for _, s := range o.Status.ContainerStatuses {
		if s.Name != spec.Name {
			continue
		}
		c.last, c.id = s.LastTerminationState, s.ContainerID
		if c.last.Terminated != nil {
			c.starts = s.RestartCount + 1
		}
		switch {
		case s.State.Running != nil:
			c.starts = s.RestartCount + 1
			c.state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "the process ended with its node's kubelet",
				StartedAt: s.State.Running.StartedAt, FinishedAt: metav1.Now(), ContainerID: s.ContainerID,
			}}
		case s.State.Terminated != nil:
			c.starts = s.RestartCount + 1
			c.state = s.State
		}
	}
	return c
}

// terminate has the container end, after a time by force.
func (c *container) terminate(grace time.Duration) {
	if c.asked.CompareAndSwap(false, true) {
		c.grace.Store(int64(grace))
		close(c.leave)
	}
}

// The pauses before a process is started again, shorter than in life.
const (
	firstBackoff   = time.Second
	longestBackoff = 15 * time.Second
	healthyAfter   = time.Minute // a process that ran for so long begins anew with them
)

// live runs the process again and again, as the pod's policy has it.
func (c *container) live(ctx context.Context) {
	defer c.pod.stir()
	defer close(c.over)
	backoff := firstBackoff
	for {
		if t := c.now().Terminated; t != nil {
			if !c.again(t.ExitCode) || c.asked.Load() {
				return
			}
			c.wait("CrashLoopBackOff", fmt.Sprintf("back-off %s before it is started again", backoff))
			if !c.pause(backoff) {
				return
			}
			backoff = min(2*backoff, longestBackoff)
		}
		p, ok := c.prepared(ctx)
		if !ok {
			return
		}
		begun := time.Now()
		c.once(ctx, p)
		if time.Since(begun) > healthyAfter {
			backoff = firstBackoff
		}
	}
}

// again is whether a process that has ended with a code is started again.
func (c *container) again(code int32) bool {
	switch c.object.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return code != 0
	default:
		return true
	}
}

// pause waits, and reports whether the container is to go on.
func (c *container) pause(d time.Duration) bool {
	select {
	case <-c.leave:
		return false
	case <-time.After(d):
		return true
	}
}

// prepared is the process to start, once all that it needs is there, and false if the container
// ends before.
func (c *container) prepared(ctx context.Context) (*lab.Process, bool) {
	for !c.asked.Load() && ctx.Err() == nil {
		p, reason, err := c.process()
		if err == nil {
			return p, true
		}
		c.wait(reason, err.Error())
		if !c.pause(time.Second) {
			break
		}
	}
	return nil, false
}

// once runs the process to its end.
func (c *container) once(ctx context.Context, p *lab.Process) {
	began := metav1.Now()
	number := c.starts // no other client writes it
	child, output, err := c.spawn(p, number)
	if err != nil {
		c.begin(corev1.ContainerState{})
		c.end(&corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError", Message: err.Error(), StartedAt: began, FinishedAt: metav1.Now()})
		return
	}
	c.begin(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: began}})
	c.change(func() { c.id, c.ready = idOf(child), c.spec.ReadinessProbe == nil })
	probing, cancel := context.WithCancel(ctx)
	defer cancel()
	unfit := c.probe(probing)
	select {
	case <-child.Gone():
	case <-unfit:
		stop(child, graceOf(c.object))
	case <-c.leave:
		stop(child, time.Duration(c.grace.Load()))
	}
	cancel()
	select {
	case <-output:
	case <-time.After(time.Second): // a process that has left its group holds it open
	}
	c.end(c.ended(child, began, number))
}

// stop ends a process within a time.
func stop(child *lab.Child, grace time.Duration) {
	if grace > 0 {
		child.Terminate()
		select {
		case <-child.Gone():
			return
		case <-time.After(grace):
		}
	}
	_ = child.Kill() // it returns when the process is gone
}

// spawn starts the process, and returns what is closed when all of its output is in the log.
func (c *container) spawn(p *lab.Process, number int32) (*lab.Child, <-chan struct{}, error) {
	if err := os.WriteFile(c.lastWill(), nil, 0o600); err != nil {
		return nil, nil, err
	}
	name := c.log(number)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return nil, nil, err
	}
	to, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, err
	}
	from, out, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, to.Close())
	}
	child, err := p.Spawn(out)
	_ = out.Close() // the process has a handle of its own
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := stamp(to, from)
		if err := errors.Join(err, from.Close(), to.Close()); err != nil {
			c.pod.k.log.Printf("%s: %v", name, err)
		}
	}()
	return child, done, err
}

// stamp writes lines with the times at which they came.
func stamp(to io.Writer, from io.Reader) error {
	for lines := bufio.NewReader(from); ; {
		line, err := lines.ReadString('\n')
		if line != "" {
			if _, err := fmt.Fprintf(to, "%s %s\n", time.Now().UTC().Format(logTime), strings.TrimSuffix(line, "\n")); err != nil {
				return err
			}
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

// logTime is of one length, so that the text behind it is found.
const logTime = "2006-01-02T15:04:05.000000000Z07:00"

// log is the file with the output of a run.
func (c *container) log(number int32) string {
	return filepath.Join(c.pod.folder, "logs", c.spec.Name, strconv.Itoa(int(number))+".log")
}

// lastWill is the file for the path to which the container writes why it ends.
func (c *container) lastWill() string {
	return filepath.Join(c.pod.folder, "termination-"+c.spec.Name)
}

// ended is how a process has.
func (c *container) ended(child *lab.Child, began metav1.Time, number int32) *corev1.ContainerStateTerminated {
	s := child.State()
	t := &corev1.ContainerStateTerminated{
		ExitCode: int32(s.ExitCode()), StartedAt: began, FinishedAt: metav1.Now(), //nolint:gosec // codes are bytes
		ContainerID: idOf(child), Reason: "Completed",
	}
	if w, is := s.Sys().(syscall.WaitStatus); is && w.Signaled() {
		t.ExitCode, t.Signal = 128+int32(w.Signal()), int32(w.Signal()) //nolint:gosec // so are signals
	}
	if t.ExitCode != 0 {
		t.Reason = "Error"
	}
	text, err := os.ReadFile(c.lastWill())
	if (err != nil || len(text) == 0) && t.ExitCode != 0 && c.spec.TerminationMessagePolicy == corev1.TerminationMessageFallbackToLogsOnError {
		text = lastLines(c.log(number))
	}
	const most = 4096
	t.Message = strings.ToValidUTF8(string(text[max(0, len(text)-most):]), "")
	return t
}

// begin counts a start.
func (c *container) begin(state corev1.ContainerState) {
	c.change(func() {
		if c.state.Terminated != nil {
			c.last = c.state
		}
		c.state = state
		c.starts++
	})
}

func idOf(child *lab.Child) string { return "process://" + strconv.Itoa(child.PID()) }

func (c *container) end(t *corev1.ContainerStateTerminated) {
	c.change(func() { c.ready, c.state = false, corev1.ContainerState{Terminated: t} })
}

// wait says why the container does not run.
func (c *container) wait(reason, message string) {
	c.change(func() {
		if c.state.Terminated != nil {
			c.last = c.state
		}
		c.state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	})
}

func (c *container) change(how func()) {
	c.mu.Lock()
	how()
	c.mu.Unlock()
	c.pod.stir()
}

func (c *container) now() corev1.ContainerState {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// runs are the numbers of the current run, or the last without one, and of the one before; -1 if
// there was no such run.
func (c *container) runs() (now, before int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starts - 1, c.starts - 2
}
