package lab

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports of a lab lie below those that systems give to outgoing connections, so that nothing
// takes one while its part is down.
const (
	firstPort = 20000
	lastPort  = 29999
)

// FreePort returns a port on loopback that nothing listens at.
func FreePort() (int, error) {
	for range 200 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", loopback(port))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port: 200 were tried")
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
