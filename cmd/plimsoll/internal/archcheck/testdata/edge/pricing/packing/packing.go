// Package packing reaches for the edge.
package packing

import (
	"flag"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
)
