//go:build unix

package lab

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock is a file that one process holds. The system lets go of it when that process ends, however
// it does.
type lock struct{ file *os.File }

// errTaken says that another process, or another lab of this one, holds the lock.
var errTaken = errors.New("the lock is held")

// takeLock takes the lock, or fails with errTaken.
func takeLock(name string) (*lock, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// Who looks whether the lock is free holds it for a moment.
	for range 20 {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errTaken
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	l := &lock{f}
	if err := l.sign(); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

// sign writes down who holds the lock.
func (l *lock) sign() error {
	if err := l.file.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(l.file, "%d\n", os.Getpid())
	return err
}

// release lets go.
func (l *lock) release() error { return l.file.Close() }

// lockIsFree reports whether no one holds the lock.
func lockIsFree(name string) (bool, error) {
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	closed := f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, closed
	}
	return err == nil, errors.Join(err, closed)
}

// terminate asks a process to end.
func terminate(pid int) error { return syscall.Kill(pid, syscall.SIGTERM) }

// endGroup kills what is left of the group that a process led. There may be nothing.
func endGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

// detached starts a process in a session of its own.
func detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
