package lab

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Process is a program that a part runs as a process of its own. It ends with the process that
// started it.
type Process struct {
	Path string
	Args []string
	Env  []string // added to this process's
	Bare bool     // it gets Env, and nothing of this process's environment
	Dir  string   // where it works, or here
	// Answers is asked again and again, until it returns nil. Without it the process counts as up
	// at once.
	Answers   func(ctx context.Context) error
	Endpoints []Endpoint
}

// Start starts the process as a part of the lab, with its output in that part's log, and waits
// until it answers. A process that does not is ended.
func (p *Process) Start(ctx context.Context, l *Lab, part string) (*Running, error) {
	log := l.Log(part)
	if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the process has a handle of its own
	begin, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	running, err := p.Spawn(out)
	if err != nil {
		return nil, err
	}
	if err := running.await(ctx, p.Answers); err != nil {
		_ = running.Kill()
		return nil, fmt.Errorf("%w%s", err, lastWords(log, begin))
	}
	return &Running{
		Endpoints: p.Endpoints, PID: running.cmd.Process.Pid, Ended: running.ended,
		Stop: running.stop, Kill: running.Kill,
	}, nil
}

// Child is a process that was started. What it starts itself goes with it, as far as that stays in
// its group.
type Child struct {
	cmd   *exec.Cmd
	leash io.Closer
	asked atomic.Bool   // to stop
	gone  chan struct{} // closed when nothing is left
	ended chan error    // as in Running
}

// Spawn starts the process for a part that runs many, and does not wait until it answers. Its
// standard input is a pipe that ends when this process does.
func (p *Process) Spawn(out *os.File) (*Child, error) {
	cmd := exec.Command(p.Path, p.Args...)
	cmd.Env = p.Env
	if !p.Bare {
		cmd.Env = append(os.Environ(), p.Env...)
	}
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, out, out
	cmd.SysProcAttr = apart()
	leash, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: cmd, leash: leash, gone: make(chan struct{}), ended: make(chan error, 1)}
	started := make(chan error)
	go func() {
		// Linux ends a child with the thread that started it, so the thread stays until the child
		// is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// PID is the number of the process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// Gone is closed when nothing is left of the process.
func (c *Child) Gone() <-chan struct{} { return c.gone }

// State is how the process ended, once it is gone.
func (c *Child) State() *os.ProcessState { return c.cmd.ProcessState }

// Terminate asks the process to end. It may be gone.
func (c *Child) Terminate() {
	c.asked.Store(true)
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
}

// wait waits until the process is gone, and says so if it was not asked to go.
func (c *Child) wait() {
	err := c.cmd.Wait()
	endGroup(c.PID())
	if !c.asked.Load() {
		c.ended <- fmt.Errorf("process %d: %s", c.cmd.Process.Pid, c.cmd.ProcessState)
	}
	_ = err // says the same as the state
	close(c.ended)
	close(c.gone)
}

// await waits until the process answers.
func (c *Child) await(ctx context.Context, answers func(context.Context) error) error {
	if answers == nil {
		return nil
	}
	for {
		one, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := answers(one)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-c.gone:
			return fmt.Errorf("it ended before it answered: %s", c.cmd.ProcessState)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(25 * time.Millisecond):
		}
	}
}

// stop asks the process to end, and ends it when the context does.
func (c *Child) stop(ctx context.Context) error {
	c.Terminate()
	select {
	case <-c.gone:
		return nil
	case <-ctx.Done():
		_ = c.Kill()
		return fmt.Errorf("process %d did not stop and was killed: %w", c.cmd.Process.Pid, context.Cause(ctx))
	}
}

// Kill ends the process as a crash would, and returns when nothing is left of it.
func (c *Child) Kill() error {
	c.asked.Store(true)
	err := c.cmd.Process.Kill()
	<-c.gone
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// lastWords are the last lines of a log that were written after a place, to go below an error.
func lastWords(log string, begin int64) string {
	const lines = 12
	text, err := os.ReadFile(log)
	if err != nil || int64(len(text)) <= begin {
		return ""
	}
	all := strings.Split(string(bytes.TrimSpace(text[begin:])), "\n")
	last := all[max(0, len(all)-lines):]
	return fmt.Sprintf("\n  the last lines of %s:\n  %s", log, strings.Join(last, "\n  "))
}

// OK returns an Answers for a process that is up when it answers a GET with status 200. Whose
// certificate it has does not matter.
func OK(url string) func(context.Context) error {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true,
	}}
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s: %s", url, resp.Status)
		}
		return nil
	}
}
