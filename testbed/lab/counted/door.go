package counted

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/replay/hpaplus"
)

// atOnce is how many requests a pod is handed at a time. It serves one; the others keep it busy
// while answers are on their way, and even out what the balancer gets wrong.
const atOnce = 4

// door is where the requests of one row wait for its pods, as at an ingress.
type door struct {
	url    string
	client *http.Client

	mu       sync.Mutex
	ready    int // pods
	waiting  int // requests that no pod was handed
	inFlight int
	count    tally
}

// tally is what happened in a period.
type tally struct{ arrived, served, lost int }

func newDoor(url string) *door {
	return &door{url: url, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}}
}

// pods are those that are ready.
func (d *door) pods() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ready
}

// arrive takes in a request.
func (d *door) arrive(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count.arrived++
	d.waiting++
	d.hand(ctx)
}

// hand hands out what pods have room for.
func (d *door) hand(ctx context.Context) {
	for d.waiting > 0 && d.inFlight < atOnce*max(d.ready, 1) {
		d.waiting--
		d.inFlight++
		go d.send(ctx)
	}
}

// send sends one request, and counts what came of it.
func (d *door) send(ctx context.Context) {
	served := d.answered(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight--
	if served {
		d.count.served++
	} else {
		d.count.lost++
	}
	d.hand(ctx)
}

func (d *door) answered(ctx context.Context) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url, nil)
	if err != nil {
		return false
	}
	answer, err := d.client.Do(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.Body.Close() == nil && err == nil && answer.StatusCode == http.StatusOK
}

// close ends a period: who waits no more is lost.
func (d *door) close() tally {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.count
	out.lost += d.waiting
	d.waiting, d.count = 0, tally{}
	return out
}

// period lets requests arrive at a rate, evenly, until the period is over, and says what came of
// it. Its pods are those in the middle of it.
func (d *door) period(ctx context.Context, begin time.Time, length time.Duration, rate float64) (capacity.Period, error) {
	n, pods := int(math.Round(rate*length.Seconds())), -1
	for k := range n + 1 {
		at := (float64(k) + 0.5) / float64(max(n, 1))
		if at >= 0.5 && pods < 0 {
			if err := until(ctx, begin.Add(length/2)); err != nil {
				return capacity.Period{}, err
			}
			pods = d.pods()
		}
		if k == n {
			break
		}
		if err := until(ctx, begin.Add(time.Duration(at*float64(length)))); err != nil {
			return capacity.Period{}, err
		}
		d.arrive(ctx)
	}
	if err := until(ctx, begin.Add(length)); err != nil {
		return capacity.Period{}, err
	}
	c, a := d.close(), 1/length.Seconds()
	now := capacity.Period{
		Pods: pods, Arrived: a * float64(c.arrived), InSystem: a * float64(c.arrived), Served: a * float64(c.served), Expired: a * float64(c.lost),
	}
	if pods > 0 {
		now.Use = min(now.Served/float64(hpaplus.PerPod*pods), 1)
	}
	return now, nil
}

// looks is how often the pods that are ready are counted.
const looks = 200 * time.Millisecond

// look counts the pods of every row once, and waits until it is time for the next look.
func (r *run) look(ctx context.Context) error {
	ask, err := http.NewRequestWithContext(ctx, http.MethodGet, r.apps+"/", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer func() { _ = answer.Body.Close() }() // it was read
	var all []plane.Application
	if err := json.NewDecoder(answer.Body).Decode(&all); err != nil {
		return fmt.Errorf("the traffic plane: %w", err)
	}
	for _, a := range all {
		if d := r.doors[a.Name]; d != nil {
			d.mu.Lock()
			d.ready = a.Ready
			d.hand(ctx)
			d.mu.Unlock()
		}
	}
	return until(ctx, time.Now().Add(looks))
}
