//go:build !unix

package lab

import (
	"errors"
	"syscall"
)

// errSystem is what a lab says where no one has taught it how to hold locks and end processes.
var errSystem = errors.New("a lab runs on Linux and macOS")

var errTaken = errors.New("the lock is held")

type lock struct{}

func takeLock(string) (*lock, error)  { return nil, errSystem }
func (*lock) release() error          { return nil }
func lockIsFree(string) (bool, error) { return false, errSystem }
func terminate(int) error             { return errSystem }
func endGroup(int)                    {}
func apart() *syscall.SysProcAttr     { return nil }
func detached() *syscall.SysProcAttr  { return nil }
