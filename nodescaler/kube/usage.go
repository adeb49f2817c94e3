package kube

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/podscaler"
)

// Usage measures the CPU of all pods, in cores, by namespace/name.
type Usage interface {
	Pods(ctx context.Context) (map[string]podscaler.Sample, error)
}

// meter has pods' CPU read beside the looks at the cluster, which take what was read last: to read
// that of 30,000 pods takes half a second.
type meter struct {
	usage Usage // nil leaves it unknown
	log   *slog.Logger

	reading atomic.Bool   // run goes on
	turn    chan struct{} // holds a value while usage is read
	asked   atomic.Pointer[time.Time]
	last    atomic.Pointer[used]
	// unmeasured is when the log last said that usage is unknown: nil while it is known.
	unmeasured atomic.Pointer[time.Time]
}

func newMeter(u Usage, log *slog.Logger) *meter {
	return &meter{usage: u, log: log, turn: make(chan struct{}, 1)}
}

// used is pods' CPU, and until when it counts by the monotonic clock if it is not read beside.
type used struct {
	is    map[string]podscaler.Sample
	until time.Time
}

const (
	// Where usage is not read beside the looks, it counts for steps that follow one another at
	// once, when pods turn unschedulable.
	usageAge  = 500 * time.Millisecond
	usageRest = 5 * time.Second // where it could not be read, it is not asked for sooner again

	// Beside the looks it is read the less often the more pods there are: a twentieth of a core
	// reads that of 30,000 every usageSlowest. How long a reading took does not count: on a busy
	// machine a policy would go by the use of pods that it has scaled since. The resource metrics
	// API has new values every 15 seconds as a rule.
	usagePods    = 3000 // for each second between two readings
	usageFastest = time.Second
	usageSlowest = 10 * time.Second
	// usageIdle is for how long without a look it goes on: a process that waits for the lead reads
	// nothing.
	usageIdle = time.Minute
)

// run reads pods' CPU while there are looks at it.
func (m *meter) run(ctx context.Context) {
	if m.usage == nil {
		return
	}
	m.reading.Store(true)
	defer m.reading.Store(false)
	for ctx.Err() == nil {
		pause := usageFastest
		switch asked := m.asked.Load(); {
		case asked == nil:
		case time.Since(*asked) > usageIdle:
			m.last.Store(nil) // the next look waits for what is new
		default:
			all, err := m.read(ctx)
			if pause = min(max(time.Duration(len(all))*time.Second/usagePods, usageFastest), usageSlowest); err != nil {
				pause = max(pause, usageRest)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// samples is what was read last. The first look reads it itself, and so does each where nothing is
// read beside the looks. What cannot be read is unknown, and no reason not to look at the rest.
func (m *meter) samples(ctx context.Context) map[string]podscaler.Sample {
	if m.usage == nil {
		return nil
	}
	now := time.Now()
	m.asked.Store(&now)
	if last := m.last.Load(); last != nil && (m.reading.Load() || time.Until(last.until) > 0) {
		return last.is
	}
	all, _ := m.read(ctx)
	return all
}

// read reads it, unless that is done while it waits for its turn.
func (m *meter) read(ctx context.Context) (map[string]podscaler.Sample, error) {
	before := m.last.Load()
	m.turn <- struct{}{}
	defer func() { <-m.turn }()
	if last := m.last.Load(); last != nil && last != before {
		return last.is, nil
	}
	ctx, cancel := context.WithTimeout(ctx, copies.Patience)
	defer cancel()
	samples, err := m.usage.Pods(ctx)
	// Counted from the answer, so that a server without one delays one step and not the next.
	now := time.Now()
	age := usageRest
	switch said := m.unmeasured.Load(); {
	case err == nil:
		age = usageAge
		m.unmeasured.Store(nil)
	case said == nil || now.Sub(*said) >= logAgain: // a cluster may never have any
		m.log.Warn("pods' CPU is unknown", "err", err)
		m.unmeasured.Store(&now)
	}
	m.last.Store(&used{samples, now.Add(age)})
	return samples, err
}

// logAgain is how often the log repeats that a value is still unknown.
const logAgain = time.Minute
