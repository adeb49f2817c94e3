package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Spawned is a process that outlives the one that started it.
type Spawned struct {
	PID   int
	Ended <-chan error // gets how it ended, if it does while we are there
}

// Spawn starts a program in a session of its own, so that closing the terminal does not end it,
// with its output at the end of a file.
func Spawn(program string, args []string, output string) (*Spawned, error) {
	if err := os.MkdirAll(filepath.Dir(output), 0o700); err != nil {
		return nil, err
	}
	out, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the process has a handle of its own
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = out, out, detached()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		if err == nil {
			err = fmt.Errorf("process %d ended", cmd.Process.Pid)
		}
		ended <- err
	}()
	return &Spawned{PID: cmd.Process.Pid, Ended: ended}, nil
}

// End asks the process to end in good order.
func (s *Spawned) End() error { return terminate(s.PID) }
