package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// playerNames are who plans, in the order of the table's pairs.
var playerNames = []string{"karpenter", "plimsoll"}

var players = map[string]func(*world, context.Context) ([]machine, error){
	"karpenter": (*world).karpenter, "plimsoll": (*world).plimsoll,
}

// result is what came of one play.
type result struct {
	verdict
	Machines   int
	Cost       pricing.Micros // an hour, of all machines
	CPU        time.Duration  // of the plan alone
	Unfinished bool           // within the limit
}

// start plays a setting in a process of its own: neither pays for what the other left in memory,
// and one that does not end is ended.
func (c *command) start(ctx context.Context, who string, s setting) (*result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-play", who, "-rows", s.Row, "-pods", strconv.Itoa(s.Pods),
		"-shapes", strconv.Itoa(s.Shapes), "-machine", s.Machine.String(), "-limit", c.limit.String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	r := &result{}
	return r, json.Unmarshal(out.Bytes(), r)
}

// play plans in this process, and judges the plan.
func play(ctx context.Context, who string, s setting, limit time.Duration) (*result, error) {
	w := newWorld(s)
	runtime.GC() // what it took to make the world is not the plan's
	before := cpuTime()
	machines, err := within(ctx, limit, func(ctx context.Context) ([]machine, error) { return players[who](w, ctx) })
	r := &result{CPU: cpuTime() - before}
	if errors.Is(err, context.DeadlineExceeded) {
		r.Unfinished = true
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range machines {
		r.Cost += machines[i].price
	}
	r.Machines = len(machines)
	r.verdict, err = w.judge(ctx, machines)
	return r, err
}

// within gives up after the limit on what may not heed its context.
func within(ctx context.Context, limit time.Duration, plan func(context.Context) ([]machine, error)) ([]machine, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type answer struct {
		machines []machine
		err      error
	}
	done := make(chan answer, 1)
	go func() {
		machines, err := plan(ctx)
		done <- answer{machines, err}
	}()
	select {
	case a := <-done:
		return a.machines, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("no plan: %w", ctx.Err())
	}
}

// cpuTime is what this process has used so far, the collector's part included: the wall's time
// would count what others keep the machine busy with.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // it fails for bad arguments alone
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
