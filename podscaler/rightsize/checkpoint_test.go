package rightsize

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// rounds has a Sizer see pods with random uses and kills for memory, minute by minute; kill may
// put another one in its place.
type rounds struct {
	uses  [][]float64 // cores and bytes of a pod in a minute
	kills map[int]int // the minute by that the pod of the number was killed
	gone  int         // the minute from which there is one pod less
}

func drawRounds(t *rapid.T) *rounds {
	r := &rounds{kills: map[int]int{}}
	for range rapid.IntRange(2, 60).Draw(t, "minutes") {
		r.uses = append(r.uses, []float64{rapid.Float64Range(0, 4).Draw(t, "cores"), rapid.Float64Range(0, 4e9).Draw(t, "bytes")})
	}
	for range rapid.IntRange(0, 3).Draw(t, "kills") {
		r.kills[rapid.IntRange(0, len(r.uses)-1).Draw(t, "killed")] = rapid.IntRange(0, 2).Draw(t, "pod")
	}
	r.gone = rapid.IntRange(0, 2*len(r.uses)).Draw(t, "gone")
	return r
}

func (r *rounds) play(every time.Duration, kill func(minute int, now time.Time, s *Sizer) *Sizer) (all []Sizing) {
	w := &Wants{Mode: InPlace, Replicas: 3}
	s := NewSizer(w, t0)
	pods := make([]Candidate, 3)
	for i := range pods {
		pods[i] = Candidate{Name: fmt.Sprint("shop/", i), Ready: true, Pod: Pod{Running: true, Started: t0, Containers: []Container{
			{Name: "app", Requests: pricing.Resources{CPU: 100, Memory: pricing.GiB}}, {Name: "proxy", Sidecar: true},
		}}}
	}
	for minute, use := range r.uses {
		now := t0.Add(time.Duration(minute) * every)
		if pod, killed := r.kills[minute]; killed && pod < len(pods) {
			pods[pod].Containers[0].OOMEnded = now.Add(-time.Second)
		}
		if minute == r.gone {
			pods = pods[:len(pods)-1]
		}
		s = kill(minute, now, s)
		uses := map[string][]podscaler.ContainerUse{}
		for i, p := range pods {
			cpu := podscaler.Sample{Known: true, Value: use[0] * float64(i+1), At: now, Span: time.Second}
			memory := podscaler.Sample{Known: true, Value: use[1] / float64(i+1), At: now}
			uses[p.Name] = []podscaler.ContainerUse{{Name: "app", CPU: cpu, Memory: memory}, {Name: "proxy", CPU: cpu}}
		}
		s.Learn(now, pods, uses)
		says, _ := s.Decide(now, w, pods)
		all = append(all, Sizing{Recommended: says.Recommended})
	}
	return all
}

// A process that is killed at any time, and goes on from its checkpoint, recommends at every time
// after that what it would have recommended without.
func TestAKillChangesNoRecommendation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRounds(t)
		every := rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 30 * time.Hour}).Draw(t, "every")
		killed := rapid.SliceOfN(rapid.IntRange(0, len(r.uses)-1), 1, 4).Draw(t, "killed")
		want := r.play(every, func(_ int, _ time.Time, s *Sizer) *Sizer { return s })
		got := r.play(every, func(minute int, now time.Time, s *Sizer) *Sizer {
			for _, at := range killed {
				if at == minute && minute > 0 {
					next := NewSizer(&Wants{Saved: s.checkpoint(now.Add(-every)), Last: s.says.Last}, now)
					if next.says.Lost != nil {
						t.Fatalf("in minute %d: %v", minute, next.says.Lost)
					}
					return next
				}
			}
			return s
		})
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("-without a kill +with:\n%s", d)
		}
	})
}

func packed(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// What cannot be read is said, and nothing of it counts.
func TestABadCheckpointIsLearntAnew(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no text of ours":      {"%", "illegal base64 data at input byte 0"},
		"not packed":           {"AAAA", "unexpected EOF"},
		"no JSON":              {packed("x"), "invalid character 'x' looking for beginning of value"},
		"a later form":         {packed(`{"version": 2}`), "version: must be 1, was 2"},
		"from the future":      {packed(`{"version": 1, "at": "2027-01-01T00:00:00Z"}`), "at: must not be in the future, was 2027-01-01T00:00:00Z"},
		"a name twice":         {packed(`{"version": 1, "containers": [{"name": "a"}, {"name": "a"}]}`), "containers[a]: must have a name of its own, was a"},
		"below 0":              {packed(`{"version": 1, "containers": [{"name": "a", "samples": -1}]}`), "containers[a]: must have no number below 0, was -1 0 0"},
		"too many weights":     {packed(`{"version": 1, "containers": [{"name": "a", "cpu": {"from": 175, "weights": [1, 1, 1]}}]}`), "containers[a].cpu: must have 176 weights at most, none below 0, was 3 from the 175th on"},
		"weights beyond all":   {packed(`{"version": 1, "containers": [{"name": "a", "cpu": {"from": 9223372036854775807, "weights": [1]}}]}`), "containers[a].cpu: must have 176 weights at most, none below 0, was 1 from the 9223372036854775807th on"},
		"learnt in the future": {packed(`{"version": 1, "containers": [{"name": "a", "cpu": {"reference": "2027-01-01T00:00:00Z"}}]}`), "containers[a]: must not be in the future, was 2027-01-01T00:00:00Z"},
		"seen in the future":   {packed(`{"version": 1, "containers": [{"name": "a", "seen": "2027-01-01T00:00:00Z"}]}`), "containers[a]: must not be in the future, was 2027-01-01T00:00:00Z"},
		"used in the future":   {packed(`{"version": 1, "containers": [{"name": "a"}], "instances": [{"pod": "p", "container": "a", "lastMemory": "2027-01-01T00:00:00Z"}]}`), "instances[0]: must not be in the future, was 2027-01-01T00:00:00Z"},
		"a weight below 0":     {packed(`{"version": 1, "containers": [{"name": "a", "memory": {"weights": [-1]}}]}`), "containers[a].memory: must have 176 weights at most, none below 0, was 1 from the 0th on"},
		"of no container":      {packed(`{"version": 1, "instances": [{"pod": "p", "container": "a"}]}`), "instances[0]: must be of a container and a pod, and have used something, was p a"},
		"larger than it looks": {packed(strings.Repeat(" ", mostUnpacked+1)), "must be at most 4194304 bytes unpacked, was more"},
	} {
		s := NewSizer(&Wants{Saved: c.text}, t0)
		if s.says.Lost == nil || s.says.Lost.Code != ReasonCheckpointRefused || !strings.HasSuffix(s.says.Lost.Text, ": "+c.want) {
			t.Errorf("%s: %v, want %s", name, s.says.Lost, c.want)
		}
		if fresh := NewSizer(&Wants{}, t0); !cmp.Equal(fresh.usage, s.usage, cmp.Exporter(func(reflect.Type) bool { return true })) || s.since != fresh.since {
			t.Errorf("%s: something of it counts", name)
		}
		says, _ := s.Decide(t0, &Wants{}, nil)
		if again, _ := s.Decide(t0, &Wants{}, nil); says.Lost == nil || again.Lost != nil {
			t.Errorf("%s: said as %v, and then %v", name, says.Lost, again.Lost)
		}
		if next := NewSizer(&Wants{Saved: says.Saved}, t0); next.says.Lost != nil {
			t.Errorf("%s: the next one finds %v", name, next.says.Lost)
		}
	}
}

// Of thousands of pods a checkpoint holds as many as there is room for, and all containers.
func TestACheckpointIsBounded(t *testing.T) {
	s := NewSizer(&Wants{}, t0)
	for i := range 5000 {
		name := fmt.Sprintf("shop/a-pod-of-a-long-name-%05d", i*7919)
		s.usage.AddCPU(name, "app", t0.Add(time.Duration(i)*time.Millisecond), pricing.MilliCPU(i))
		s.usage.AddMemory(name, "app", t0.Add(time.Duration(i)*time.Millisecond), pricing.Bytes(i)*pricing.MiB)
	}
	text := s.checkpoint(t0)
	next := NewSizer(&Wants{Saved: text}, t0.Add(time.Minute))
	if len(text) > mostSaved || next.says.Lost != nil || len(next.usage.instances) == 0 {
		t.Errorf("%d bytes, %d pods, %v", len(text), len(next.usage.instances), next.says.Lost)
	}
	if d := cmp.Diff(s.usage.Recommend(nil), next.usage.Recommend(nil)); d != "" {
		t.Errorf("-before +after:\n%s", d)
	}
	for i := range 5000 {
		s.usage.AddCPU("p", fmt.Sprint("container-", i), t0, 100)
	}
	if text := s.checkpoint(t0); len(text) > mostSaved {
		t.Errorf("of 5000 containers it has %d bytes", len(text))
	}
}

// Checkpoints are made when they are old, and at once after an eviction, which is not to be
// repeated.
func TestWhenCheckpointsAreMade(t *testing.T) {
	w, pods := &Wants{Mode: Auto, Replicas: 2}, stuckPods(2, t0.Add(-13*time.Hour))
	s := NewSizer(w, t0)
	var made []int
	last := ""
	for minute := range 25 {
		now := t0.Add(time.Duration(minute) * time.Minute)
		s.Learn(now, pods, used(pods, now, 1, 1e9))
		w.Held = &Reason{Code: "Test"}
		if minute == 13 {
			w.Held = nil
		}
		says, order := s.Decide(now, w, pods)
		if says.Saved != last {
			made, last = append(made, minute), says.Saved
		}
		if order != nil {
			s.Done(order.Done(now, ""))
		}
	}
	if d := cmp.Diff([]int{0, 10, 14, 24}, made); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
