package demoverb

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/plimsoll/plimsoll/dashboard"
)

// usualPage is where the page is served if nothing says otherwise, or beside it where something is.
const usualPage = "127.0.0.1:8642"

// servedPage is the web page of a day.
type servedPage struct {
	history *dashboard.History
	url     string
	close   func() error
}

// openPage serves a page until it is closed.
func openPage(ctx context.Context, at string) (*servedPage, error) {
	l, err := net.Listen("tcp", at)
	if at == usualPage && errors.Is(err, syscall.EADDRINUSE) {
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
