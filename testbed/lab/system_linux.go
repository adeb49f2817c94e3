package lab

import "syscall"

// apart starts a process in a group of its own, so that an interrupt at the terminal reaches only
// the process that runs the lab, which stops the others in order. The system ends it with us, also
// when we are killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
