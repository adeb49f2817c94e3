package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/grpc/provider"
)

// doors are where cluster-autoscaler is let in: to the provider, and to the expander, if that has
// an address.
type doors struct{ provider, expander net.Listener }

// doors opens them.
func (s *running) doors(how *provider.Listening) (*doors, error) {
	d := &doors{}
	for _, one := range []struct {
		key, at string
		l       *net.Listener
	}{{"listen", s.Provider.Listen, &d.provider}, {"expander", s.Provider.Expander, &d.expander}} {
		if one.at == "" {
			continue
		}
		l, err := s.listen("provider."+one.key, one.at)
		if err != nil {
			return nil, errors.Join(err, d.close())
		}
		*one.l = l
		if err := how.Check(one.key, l.Addr()); err != nil {
			return nil, errors.Join(cli.WithCode(cli.ExitConfig, fmt.Errorf("provider.%w", err)), d.close())
		}
	}
	return d, nil
}

func (d *doors) close() error {
	var faults []error
	for _, l := range []net.Listener{d.provider, d.expander} {
		if l != nil {
			faults = append(faults, l.Close())
		}
	}
	return errors.Join(faults...)
}

// serve serves at both until the context is done. With one of them the other ends.
func (d *doors) serve(ctx context.Context, server *provider.Server, how provider.Listening) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return server.Serve(ctx, d.provider, how) })
	if d.expander != nil {
		both.Go(func() error { return server.ServeExpander(ctx, d.expander, how) })
	}
	return both.Wait()
}

// String names them.
func (d *doors) String() string {
	if d.expander == nil {
		return d.provider.Addr().String()
	}
	return fmt.Sprintf("%s, its expander on %s", d.provider.Addr(), d.expander.Addr())
}
