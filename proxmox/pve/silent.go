package pve

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// A host may be online, as the others see it, and answer nothing that is asked of itself, with a
// storage that hangs for one. The server says so after half a minute. It must not keep the others
// from being seen: what is read of hosts is read of all at once, and not waited for for long.

const (
	// hostPatience is how long a look waits for a host. One that works answers in a fraction of a
	// second.
	hostPatience = 5 * time.Second
	// hostRest is how long a host that did not answer is not asked again in a look.
	hostRest = time.Minute
	// silentFor is how long at most nothing is done to the machines of a host that did not answer.
	// Looks end it sooner: but a host may be too slow for them, and not for a move.
	silentFor = 10 * time.Minute
)

// askHosts asks something of each host, of all at the same time, and passes over those that did not
// answer a short while ago. What is not told now is told later.
func (lo *lookout) askHosts(ctx context.Context, hosts []string, ask func(ctx context.Context, host string) error) {
	lo.mu.Lock()
	now := lo.cfg.Now()
	hosts = slices.DeleteFunc(hosts, func(host string) bool {
		left := lo.view.resting[host].Sub(now)
		return left > 0 && left <= hostRest // more is left only when the clock was set back
	})
	lo.mu.Unlock()
	if lo.cfg.Parallel == 1 {
		for _, host := range hosts {
			lo.askHost(ctx, host, ask)
		}
		return
	}
	var asking sync.WaitGroup
	for _, host := range hosts {
		asking.Go(func() { lo.askHost(ctx, host, ask) })
	}
	asking.Wait()
}

func (lo *lookout) askHost(ctx context.Context, host string, ask func(ctx context.Context, host string) error) {
	began := lo.cfg.Now()
	limited, cancel := context.WithTimeout(ctx, hostPatience)
	defer cancel()
	err := ask(limited, host)
	now := lo.cfg.Now()
	lo.mu.Lock()
	defer lo.records.unlock()
	if err != nil && (limited.Err() != nil || now.Sub(began) >= hostPatience) {
		lo.view.resting[host] = now.Add(hostRest)
		return
	}
	delete(lo.view.resting, host)
	delete(lo.view.silent, host)
}

// hush notes that a host did not answer a move, so that the machines that are there do not all wait
// for it, one after the other, and the others with them.
func (w *work) hush(err error) {
	var e *pveapi.Error
	if errors.As(err, &e) && pveapi.Is(err, pveapi.Unanswered, pveapi.HostUnreachable) && w.cfg.Now().Sub(w.now) >= hostPatience && e.Host() != "" {
		w.view.silent[e.Host()] = w.cfg.Now()
	}
}

// hushed reports whether a host that a machine's next move may be for is silent.
func (ag *agenda) hushed(m *tracked) bool {
	if len(ag.view.silent) == 0 {
		return false
	}
	asked := m.hosts()
	if p := ag.catalogue.pools[m.Pool]; p != nil && m.Step.before(StepCloned) {
		asked = append(asked, ag.view.templates[p.Template.On(m.Host)].Host)
	}
	return slices.ContainsFunc(asked, func(host string) bool { return !ag.view.silent[host].IsZero() })
}
