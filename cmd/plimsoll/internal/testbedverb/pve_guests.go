package testbedverb

import (
	"context"
	"fmt"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/guests"
)

// realGuests is what runs machines for real, if that was asked for.
func (ask *testbedPVE) realGuests(ctx context.Context, env *cli.Env) (*guests.Machines, error) {
	switch {
	case ask.guests == "":
		return nil, nil
	case ask.speed != 1:
		return nil, cli.Misused("--speed: must be 1 with --guests, whose machines follow the clock, was %v", ask.speed)
	case ask.state != "":
		return nil, cli.Misused("--state: must not be given with --guests, whose disks are not saved, was %q", ask.state)
	}
	booted, err := guests.New(ctx, guests.Config{Image: ask.guests, Say: func(line string) { fmt.Fprintln(env.Stderr, line) }})
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--guests: %w", err))
	}
	return booted, nil
}
