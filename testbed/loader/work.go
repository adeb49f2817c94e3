package loader

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plimsoll/plimsoll/pricing"
)

// Work is what every request asks for.
type Work struct {
	// Digits is how many decimals of π are worked out.
	Digits int
	// Memory is held from the request's beginning to its end, and every page of it is written to.
	Memory pricing.Bytes
}

// held is the memory of a request.
type held []byte

// page is the smallest that a page of memory is on the systems we run on.
const page = 4096

// do works, and returns the digits and what must be let go when the request ends.
func (w Work) do() (digits []byte, memory held) {
	memory = make(held, w.Memory)
	for i := 0; i < len(memory); i += page {
		memory[i] = 1 // memory that is only asked for is not there yet
	}
	return pi(w.Digits), memory
}

// spread is work that takes more by a part of it, or less: it grows with the square of the digits.
func (w Work) spread(more float64) Work {
	w.Digits = max(1, int(math.Round(float64(w.Digits)*math.Sqrt(1+more))))
	return w
}

// Calibration is work that was found to take a time.
type Calibration struct {
	Work
	// Demand is what the work takes of a core on this machine: half of the trials took less. It is
	// 0 where the work was given and not looked for.
	Demand time.Duration
}

// The limits of what is looked for. Below the least, what HTTP takes beside the work is more than a
// twentieth of it; above the most, a pod with half a core takes a minute to begin.
const (
	leastDemand = 2 * time.Millisecond
	mostDemand  = 2 * time.Second
	mostDigits  = 50_000
)

// bench says what work takes. It is a clock for work, so that the search can be tried without one.
type bench func(Work) time.Duration

// Calibrate finds how many decimals take a time on one core, beside what the memory takes. It goes
// by the CPU time of its own thread, so a machine that others keep busy, or a share of a core, make
// it take longer and come to the same.
func Calibrate(ctx context.Context, demand time.Duration, memory pricing.Bytes) (Calibration, error) {
	return calibrate(ctx, demand, memory, threadTime)
}

// threadTime is what work takes of the core that it is on.
func threadTime(w Work) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadClock()
	_, memory := w.do()
	took := threadClock() - began
	runtime.KeepAlive(memory)
	return took
}

// threadClock is how long the calling thread has been on a core.
func threadClock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		// Each that we build for does.
		panic(fmt.Sprintf("this system does not report a thread's CPU time: %v", err))
	}
	return time.Duration(t.Nano())
}

// calibrate goes by the square of the decimals: from few of them to enough to be measured, from
// those to what the demand takes, and on from what that took until it is close. Trials that
// something disturbed may lead a round astray, so what came closest is taken, and every round asks
// for less than the one before.
func calibrate(ctx context.Context, demand time.Duration, memory pricing.Bytes, measure bench) (Calibration, error) {
	const rounds = 8
	samples := int(min(15, max(3, time.Second/demand)))
	base, err := try(ctx, Work{1, memory}, 5, measure)
	if err != nil {
		return Calibration{}, err
	}
	if base[0] > demand*9/10 {
		return Calibration{}, fmt.Errorf("calibrate: must be longer than what %s of memory take, which is %s here, was %s", memory, base[0].Round(time.Microsecond), demand)
	}
	wanted := demand - base[0]
	found, err := enough(ctx, wanted/8, Work{100, memory}, base[0], measure)
	best := found
	for round := 0; err == nil && round < rounds; round++ {
		// Of what takes less than the memory alone nothing can be said but that it is too little.
		ratio := min(16, float64(wanted)/float64(max(1, found.Demand-base[0])))
		found.Digits = min(mostDigits, max(1, int(math.Round(float64(found.Digits)*math.Sqrt(ratio)))))
		var took []time.Duration
		if took, err = try(ctx, found.Work, samples, measure); err != nil {
			break
		}
		found.Demand = took[len(took)/2]
		if round == 0 || off(found.Demand, demand) < off(best.Demand, demand) {
			best = found
		}
		if round > 0 && off(best.Demand, demand) <= 0.02*float64(max(1, round-1)) {
			break
		}
	}
	return best, err
}

// enough doubles the decimals until they take a time beside the base.
func enough(ctx context.Context, want time.Duration, w Work, base time.Duration, measure bench) (Calibration, error) {
	for {
		took, err := try(ctx, w, 1, measure)
		if err != nil {
			return Calibration{}, err
		}
		if took[0]-base >= want || w.Digits == mostDigits {
			return Calibration{w, took[0]}, nil
		}
		w.Digits = min(2*w.Digits, mostDigits)
	}
}

// off is by what part a time is longer or shorter than another.
func off(took, want time.Duration) float64 {
	return math.Abs(float64(took-want)) / float64(want)
}

// try measures work so many times, and returns what it took, from the least to the most. Half of
// the trials may be disturbed and the median is not.
func try(ctx context.Context, w Work, samples int, measure bench) ([]time.Duration, error) {
	took := make([]time.Duration, samples)
	for i := range took {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		took[i] = measure(w)
	}
	slices.Sort(took)
	return took, nil
}
