package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// limitedFleet takes orders one after the other, and none that crosses the hard limit. Two who
// order from one fleet, the loop and cluster-autoscaler, each keep to it by what they saw last,
// which is without the other's orders.
type limitedFleet struct {
	timedFleet
	limit pricing.Rate
	now   func() time.Time

	mu     sync.Mutex
	prices *pricing.Book
}

// Configure takes pools and prices.
func (f *limitedFleet) Configure(pools []settings.Pool, prices *pricing.Book) error {
	f.mu.Lock()
	f.prices = prices
	f.mu.Unlock()
	return f.timedFleet.Configure(pools, prices)
}

// Create orders a machine.
func (f *limitedFleet) Create(ctx context.Context, o loop.Order) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	state, err := f.List(ctx)
	if err != nil {
		return fmt.Errorf("%w: what all machines cost is not known: %w", loop.ErrRefused, err)
	}
	snapshot := nodescaler.Snapshot{Now: f.now(), Hosts: state.Hosts, Machines: state.Machines, Prices: f.prices, Limit: f.limit}
	if err := withinLimit(&snapshot, o); err != nil {
		return err
	}
	return f.timedFleet.Create(ctx, o)
}

// ForAutoscaler is the fleet as cluster-autoscaler has it, whose orders keep to the same limit.
func (f *limitedFleet) ForAutoscaler() loop.Machines {
	return limitedAutoscaler{f.timedFleet.ForAutoscaler(), f}
}

type limitedAutoscaler struct {
	loop.Machines
	fleet *limitedFleet
}

// Create orders a machine.
func (a limitedAutoscaler) Create(ctx context.Context, o loop.Order) error {
	return a.fleet.Create(ctx, o)
}

// withinLimit refuses an order with which all machines would cost more than they may.
func withinLimit(s *nodescaler.Snapshot, o loop.Order) error {
	if slices.ContainsFunc(s.Machines, func(m nodescaler.Machine) bool { return m.Order == o.ID }) {
		return nil // it counts already
	}
	if rate, fits := nodescaler.NewIndex(s).Paid().With(*o.Action.Shape, o.Action.Host); !fits {
		return fmt.Errorf("%w: %s: all machines would cost %s/h of at most %s/h", loop.ErrRefused, nodescaler.LimitReached, rate, s.Limit)
	}
	return nil
}
