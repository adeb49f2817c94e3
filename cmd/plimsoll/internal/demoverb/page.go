package demoverb

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/plimsoll/plimsoll/dashboard"
)

// servedPage is the web page of a day.
type servedPage struct {
	history *dashboard.History
	url     string
	close   func() error
}

// openPage serves a page until it is closed: at another port where the usual one is taken.
func openPage(ctx context.Context, at string) (*servedPage, error) {
	l, err := net.Listen("tcp", at)
	if at == dashboard.UsualAddress && errors.Is(err, syscall.EADDRINUSE) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	p := &servedPage{history: dashboard.New(dashboard.Large), url: "http://" + l.Addr().String() + "/"}
	served := make(chan error, 1)
	go func() { served <- p.history.Serve(ctx, l) }()
	p.close = func() error {
		stop()
		return <-served
	}
	return p, nil
}
