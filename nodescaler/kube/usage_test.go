package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/podscaler"
)

// samples measures pods' CPU, or does not.
type samples struct {
	all map[string]podscaler.Sample
	err error
}

func (s samples) Pods(context.Context) (map[string]podscaler.Sample, error) { return s.all, s.err }

func TestUnknownUsageHidesNothingElse(t *testing.T) {
	c := still(t)
	c.holds(t, copies.Pods, kept.ShortPod(written.Object[corev1.Pod](t, `metadata: {namespace: shop, name: b, `+written.Owned+`}`)), kept.ShortPod(written.Object[corev1.Pod](t, `metadata: {namespace: shop-x, name: a, `+written.Owned+`}`)))
	half := podscaler.Sample{Known: true, Value: 0.5}
	c.meter.usage = samples{all: map[string]podscaler.Sample{"shop/b": half}}
	state := c.look(t.Context())
	if len(state.Pods) != 2 || state.Pods[0].Name != "shop-x/a" || state.Pods[0].CPU.Known || state.Pods[1].CPU != half {
		t.Errorf("%+v", state.Pods)
	}
	c.meter.usage = samples{err: errors.New("not now")}
	if state := c.look(t.Context()); state.Pods[1].CPU != half {
		t.Error("read again at once")
	}
	c.meter.last.Store(nil)
	if state := c.look(t.Context()); len(state.Pods) != 2 || state.Pods[1].CPU.Known {
		t.Errorf("%+v", state.Pods)
	}
}

func TestUnknownUsageIsLoggedNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		m := newMeter(nil, slog.New(slog.NewTextHandler(&said, nil)))
		look := func(err error, times int) int {
			said.Reset()
			m.usage = samples{err: err}
			for range times {
				m.samples(t.Context())
				time.Sleep(10 * time.Second)
			}
			return strings.Count(said.String(), "CPU is unknown")
		}
		none := errors.New("no metrics")
		if n := look(none, 30); n != 5 {
			t.Errorf("logged %d times in five minutes", n)
		}
		if n := look(nil, 1) + look(none, 1); n != 1 {
			t.Errorf("logged %d times when it is unknown again", n)
		}
	})
}

func TestUsageThatHangsHoldsUpOneStepAndNotTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(hanging{}, slog.New(slog.DiscardHandler))
		for i, most := range []time.Duration{copies.Patience, 0, 0} {
			began := time.Now()
			if got := m.samples(t.Context()); len(got) > 0 {
				t.Errorf("usage %v", got)
			}
			if took := time.Since(began); took > most {
				t.Errorf("look %d took %s", i, took)
			}
		}
	})
}

// What was read counts for steps that follow at once. A step later replicas may have been changed
// by it.
func TestUsageCountsForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMeter(nil, slog.New(slog.DiscardHandler))
		for _, s := range []struct {
			after time.Duration
			want  float64
		}{{0, 1}, {400 * time.Millisecond, 1}, {200 * time.Millisecond, 3}, {time.Second, 4}} {
			time.Sleep(s.after)
			m.usage = samples{all: map[string]podscaler.Sample{"shop/a": {Known: true, Value: s.want}}}
			if s.after == 400*time.Millisecond {
				m.usage = samples{all: map[string]podscaler.Sample{"shop/a": {Known: true, Value: 2}}}
			}
			if got := m.samples(t.Context())["shop/a"].Value; got != s.want {
				t.Errorf("after %s: %g, want %g", s.after, got, s.want)
			}
		}
	})
}

// A cluster may never have a metrics server: it is asked for it now and then.
func TestUsageThatCannotBeReadIsNotAskedForEverySecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		m := newMeter(missing{&asked}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		go m.run(ctx)
		for range 60 {
			m.samples(ctx)
			time.Sleep(time.Second)
		}
		if n, most := asked.Load(), int64(time.Minute/usageRest)+2; n > most {
			t.Errorf("asked %d times in a minute, want at most %d", n, most)
		}
		cancel()
		time.Sleep(time.Minute)
	})
}

// missing counts how often it is asked, and answers that it is not there.
type missing struct{ asked *atomic.Int64 }

func (m missing) Pods(context.Context) (map[string]podscaler.Sample, error) {
	m.asked.Add(1)
	return nil, errors.New("the server could not find the requested resource")
}

// hanging gives no answer.
type hanging struct{}

func (hanging) Pods(ctx context.Context) (map[string]podscaler.Sample, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// counting counts how often it is asked, and takes its time.
type counting struct {
	asked *atomic.Int64
	takes time.Duration
	pods  int // besides the one
}

func (c counting) Pods(context.Context) (map[string]podscaler.Sample, error) {
	n := c.asked.Add(1)
	time.Sleep(c.takes)
	all := map[string]podscaler.Sample{"shop/a": {Known: true, Value: float64(n)}}
	for i := range c.pods {
		all[fmt.Sprint("shop/b-", i)] = podscaler.Sample{}
	}
	return all, nil
}

// Looks that are first at the same time have it read once.
func TestUsageIsReadOnceForAllThatWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		m := newMeter(counting{&asked, time.Second, 0}, slog.New(slog.DiscardHandler))
		for range 3 {
			go func() {
				if got := m.samples(t.Context())["shop/a"].Value; got != 1 {
					t.Errorf("a look has the %gth reading", got)
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// Once it is read beside the looks, these wait for nothing but the first, and have what is at most
// some seconds old: the less the fewer pods there are, however slow the answers. Without looks
// nothing is read.
func TestUsageIsReadBesideTheLooks(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		pods  int
		pause time.Duration
	}{{10 * time.Millisecond, 0, usageFastest}, {2 * time.Second, 0, usageFastest}, {700 * time.Millisecond, 6 * usagePods, 6 * time.Second}, {time.Second, 20 * usagePods, usageSlowest}} {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int64
			m := newMeter(counting{&asked, c.takes, c.pods}, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			go m.run(ctx)
			time.Sleep(time.Hour)
			if n := asked.Load(); n > 0 {
				t.Fatalf("asked %d times without a look", n)
			}
			for i := range 300 {
				began := time.Now()
				if got, n := m.samples(ctx)["shop/a"], asked.Load(); !got.Known || int64(got.Value) < n-1 {
					t.Fatalf("look %d has %v, the %dth was asked for", i, got, n)
				}
				if took := time.Since(began); i > 0 && took > 0 {
					t.Fatalf("look %d took %s", i, took)
				}
				time.Sleep(time.Second)
			}
			if n, want := asked.Load(), int64(5*time.Minute/(c.pause+c.takes)); n < want-2 || n > want+3 {
				t.Errorf("%+v: asked %d times in five minutes, want %d", c, n, want)
			}
			time.Sleep(2 * time.Hour)
			if before := asked.Load(); m.samples(ctx)["shop/a"].Value <= float64(before) {
				t.Error("two hours later, the look has what was read two hours before")
			}
			cancel()
			time.Sleep(time.Minute)
		})
	}
}
