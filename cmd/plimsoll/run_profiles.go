package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// profilesAgain is how often the files that join profiles name are read again.
const profilesAgain = 30 * time.Second

// rereadProfiles gives the fleet the pools of the file with what their join profiles name now,
// until the context is done: a join token may be rotated while the program runs.
func (s *running) rereadProfiles(ctx context.Context, configure func([]settings.Pool, *pricing.Book) error) {
	every, said := time.NewTicker(profilesAgain), ""
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			said = s.rereadOnce(said, configure)
		}
	}
}

// rereadOnce reads them once. What cannot be read or used leaves the pools as they are, and is said
// unless it was the last time.
func (s *running) rereadOnce(said string, configure func([]settings.Pool, *pricing.Book) error) string {
	site := settings.Site{Pools: slices.Clone(s.Pools)}
	err := site.Read(s.readBeside)
	if err == nil {
		err = configure(site.Pools, s.Prices)
	}
	if err == nil {
		return ""
	}
	if err.Error() != said {
		fmt.Fprintf(s.env.Stderr, "join profiles are used as they were read before: %v\n", err)
	}
	return err.Error()
}
