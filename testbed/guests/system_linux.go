package guests

import "syscall"

// apart starts QEMU in a group of its own, so that an interrupt at the terminal does not reach it,
// and lets the system end it with us, also when we are killed.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
