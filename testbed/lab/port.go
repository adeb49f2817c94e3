package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports of a lab lie below those that systems give to outgoing connections, so that nothing
// takes one while its part is down.
const (
	firstPort = 20000
	lastPort  = 29999
	blockSize = 50
)

// ports are this process's. A port is free until its server listens, which takes seconds, and again
// while its part is down: another lab would take it. So a process has blocks of ports to itself,
// and listens at the first port of each as long as it lives.
var ports struct {
	sync.Mutex
	next, end int
	blocks    []net.Listener
}

// FreePort returns a port on loopback that nothing listens at, and that no lab gets but once.
func FreePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	for range 200 {
		if ports.next == ports.end && !takeBlock() {
			continue
		}
		port := ports.next
		ports.next++
		if l, err := net.Listen("tcp", loopback(port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port: 200 were tried")
}

// FreeAddress is a free port with the host before it.
func FreeAddress() (string, error) {
	port, err := FreePort()
	return loopback(port), err
}

// takeBlock makes one of the blocks this process's, if no other has it.
func takeBlock() bool {
	first := firstPort + blockSize*rand.IntN((lastPort+1-firstPort)/blockSize)
	l, err := net.Listen("tcp", loopback(first))
	if err != nil {
		return false
	}
	ports.blocks = append(ports.blocks, l)
	ports.next, ports.end = first+1, first+blockSize
	return true
}

// keptPort returns the port that a part had before, or a free one.
func keptPort(port *int) (int, error) {
	if *port == 0 {
		var err error
		if *port, err = FreePort(); err != nil {
			return 0, fmt.Errorf("port: %w", err)
		}
	}
	return *port, nil
}

// loopback is the address of a port on this machine.
func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
