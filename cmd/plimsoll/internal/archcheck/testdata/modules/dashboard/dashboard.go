// Package dashboard speaks gRPC and draws in a terminal.
package dashboard

import (
	"charm.land/lipgloss/v2"
	"google.golang.org/grpc"
)
