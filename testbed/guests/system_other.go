//go:build !linux

package guests

import "syscall"

func apart() *syscall.SysProcAttr { return nil }
