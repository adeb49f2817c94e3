package rightsize

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/golden"
)

// noon is when all streams of samples are counted from.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// twinCase is a stream of samples, and what is recommended after it. testbed/peers/vpa asks the
// recommender of the Vertical Pod Autoscaler the same.
type twinCase struct {
	Name     string
	Stream   []burst
	Policies Policies `json:",omitempty"`
	Want     []Recommendation
}

// burst is samples at even distances: the i-th is First + (i × Step) mod Mod.
type burst struct {
	Kind             string // cpu, memory or oom
	Pod, Container   string
	From, Every      int64 // seconds
	N                int64
	First, Step, Mod int64
}

func (b *burst) feed(u *Usage) {
	for i := range b.N {
		at, v := noon.Add(time.Duration(b.From+i*b.Every)*time.Second), b.First+i*b.Step%b.Mod
		switch b.Kind {
		case "cpu":
			u.AddCPU(b.Pod, b.Container, at, pricing.MilliCPU(v))
		case "memory":
			u.AddMemory(b.Pod, b.Container, at, pricing.Bytes(v))
		case "oom":
			u.OOM(b.Pod, b.Container, at, pricing.Bytes(v))
		}
	}
}

func TestWhatTheTwinIsAskedIsWhatItsFileSays(t *testing.T) {
	chance := rand.New(rand.NewPCG(8, 1))
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	for i := range 120 {
		c := drawTwin(chance, i)
		if i == 0 { // half of the weight is reached at one of two values, and no more than half
			c = twinCase{Name: "even", Stream: []burst{
				{Kind: "cpu", Pod: "p0", Container: "web", Every: 86400, N: 2, First: 100, Mod: 1},
				{Kind: "cpu", Pod: "p1", Container: "web", Every: 86400, N: 2, First: 5000, Mod: 1},
			}}
		}
		u := New(Defaults())
		for _, b := range c.Stream {
			b.feed(u)
		}
		c.Want = u.Recommend(c.Policies)
		for i := range c.Want {
			c.Want[i].Reasons = nil // another test checks them, and the twin has none
		}
		if err := encoder.Encode(c); err != nil {
			t.Fatal(err)
		}
	}
	golden.Compare(t, "testdata/twin.jsonl", text.String())
}

// drawTwin draws pods that come and go over minutes, a week or half a year, with samples as often
// as every few seconds or once an hour, kills, and pods whose samples are read long after others'.
func drawTwin(chance *rand.Rand, i int) twinCase {
	const day = 24 * 3600
	c := twinCase{Name: fmt.Sprint("stream ", i)}
	span := []int64{1, 600, day / 2, 2 * day, 8 * day, 30 * day, 220 * day}[i%7]
	for _, container := range []string{"web", "sidecar", "quiet"}[:1+chance.IntN(3)] {
		unit := []int64{1, 300, 20_000}[chance.IntN(3)]
		for pod := range 1 + chance.IntN(3) {
			from, every := chance.Int64N(span), []int64{5, 60, 3600, day}[chance.IntN(4)]
			n := min(1+(span-from)/every, 3000)
			b := burst{Pod: fmt.Sprint("p", pod), Container: container, From: from, Every: every, N: n}
			cpu, memory := b, b
			cpu.Kind, cpu.First, cpu.Step, cpu.Mod = "cpu", chance.Int64N(2*unit), 1+chance.Int64N(3*unit), 1+chance.Int64N(10*unit)
			size := unit * int64(pricing.MiB)
			memory.Kind, memory.First, memory.Step, memory.Mod = "memory", chance.Int64N(size), 1+chance.Int64N(size), 1+chance.Int64N(20*size)
			if container != "quiet" || pod > 0 {
				c.Stream = append(c.Stream, cpu)
			}
			if container != "quiet" || pod > 1 {
				c.Stream = append(c.Stream, memory)
			}
			if chance.IntN(3) == 0 {
				oom := burst{
					Kind: "oom", Pod: b.Pod, Container: container, From: from + every*chance.Int64N(n+1), Every: every,
					N: 1 + chance.Int64N(4), First: chance.Int64N(10 * size), Step: 1, Mod: 1,
				}
				c.Stream = append(c.Stream, oom)
			}
		}
	}
	// Samples of different pods may come in any order.
	if chance.IntN(2) == 0 {
		chance.Shuffle(len(c.Stream), func(i, j int) { c.Stream[i], c.Stream[j] = c.Stream[j], c.Stream[i] })
	}
	if chance.IntN(3) == 0 {
		c.Policies = append(c.Policies, Policy{Container: "web", Min: pair(chance.Int64N(200), chance.Int64N(400)), Max: pair(200+chance.Int64N(800), 0)})
	}
	if chance.IntN(4) == 0 {
		c.Policies = append(c.Policies, Policy{Container: "sidecar", Off: chance.IntN(2) == 0, Controls: []Resource{both[chance.IntN(2)]}})
	}
	if chance.IntN(4) == 0 {
		c.Policies = append(c.Policies, Policy{Container: "*", Max: pair(0, 300+chance.Int64N(1000))})
	}
	return c
}
