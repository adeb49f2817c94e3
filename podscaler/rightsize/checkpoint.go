package rightsize

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

const (
	// savedEvery is how old a checkpoint may be: what is learnt after it is lost with the process.
	savedEvery = 10 * time.Minute
	// mostSaved is how long a checkpoint may be. What is known of single pods is dropped from one
	// that would be longer, the oldest first.
	mostSaved = 1 << 16
	// mostUnpacked is how long it may be once it is unpacked.
	mostUnpacked = 1 << 22
	// savedVersion is that of the form of checkpoints.
	savedVersion = 1
)

// saved is what a Sizer knows, as a checkpoint has it.
type saved struct {
	Version    int              `json:"version"`
	At         time.Time        `json:"at"`
	Containers []savedContainer `json:"containers,omitempty"`
	Instances  []savedInstance  `json:"instances,omitempty"`
	Evicted    evictions        `json:"evicted,omitzero"`
}

type savedContainer struct {
	Name    string         `json:"name"`
	CPU     savedHistogram `json:"cpu,omitzero"`
	Memory  savedHistogram `json:"memory,omitzero"`
	First   time.Time      `json:"first,omitzero"`
	Last    time.Time      `json:"last,omitzero"`
	Seen    time.Time      `json:"seen,omitzero"`
	Samples int            `json:"samples,omitempty"`
	Peaks   int            `json:"peaks,omitempty"`
	OOMs    int            `json:"ooms,omitempty"`
}

// savedHistogram has the weights from a bucket on.
type savedHistogram struct {
	From      int       `json:"from,omitempty"`
	Weights   []float64 `json:"weights,omitempty"`
	Total     float64   `json:"total,omitempty"`
	Reference time.Time `json:"reference,omitzero"`
}

type savedInstance struct {
	Pod        string        `json:"pod"`
	Container  string        `json:"container"`
	LastCPU    time.Time     `json:"lastCPU,omitzero"`
	LastMemory time.Time     `json:"lastMemory,omitzero"`
	End        time.Time     `json:"end,omitzero"`
	Peak       pricing.Bytes `json:"peak,omitempty"`
	OOMPeak    pricing.Bytes `json:"oomPeak,omitempty"`
	Killed     time.Time     `json:"killed,omitzero"`
}

// save makes a checkpoint, if the last one is old.
func (s *Sizer) save(now time.Time) {
	if s.saved.IsZero() || now.Sub(s.saved) >= savedEvery {
		s.saved, s.says.Saved = now, s.checkpoint(now)
	}
}

// checkpoint is what the Sizer knows, as text.
func (s *Sizer) checkpoint(now time.Time) string {
	c := saved{Version: savedVersion, At: now, Evicted: s.evicted}
	for _, name := range s.usage.names() {
		of := s.usage.containers[name]
		c.Containers = append(c.Containers, savedContainer{
			Name: name, CPU: of.cpu.saved(), Memory: of.memory.saved(), First: of.first, Last: of.last, Seen: of.seen,
			Samples: of.samples, Peaks: of.peaks, OOMs: of.ooms,
		})
	}
	for id, of := range s.usage.instances {
		c.Instances = append(c.Instances, savedInstance{
			id.pod, id.container, of.lastCPU, of.lastMemory, of.end, of.peak, of.oomPeak, s.killed[[2]string{id.pod, id.container}],
		})
	}
	slices.SortFunc(c.Instances, func(a, b savedInstance) int { // the newest first
		return cmp.Or(b.LastCPU.Compare(a.LastCPU), strings.Compare(a.Pod, b.Pod), strings.Compare(a.Container, b.Container))
	})
	for {
		text := c.pack()
		if len(text) <= mostSaved {
			return text
		}
		if len(c.Instances) == 0 { // containers without number: their use is learnt anew
			c.Containers = c.Containers[:len(c.Containers)/2]
		}
		c.Instances = c.Instances[:len(c.Instances)/2]
	}
}

func (c *saved) pack() string {
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	// Neither fails: a buffer takes everything, and no number of a histogram is infinite.
	_ = json.NewEncoder(packed).Encode(c)
	_ = packed.Close()
	return base64.StdEncoding.EncodeToString(out.Bytes())
}

// restore takes over what a checkpoint says, or nothing of one that cannot be right.
func (s *Sizer) restore(text string, now time.Time) error {
	c, err := unpack(text)
	if err == nil {
		err = c.check(now, &s.usage.settings)
	}
	if err != nil {
		return err
	}
	s.since, s.evicted = c.At, c.Evicted
	for i := range c.Containers {
		k := &c.Containers[i]
		of := &container{
			cpu: newHistogram(&cpuScale, s.usage.settings.HalfLife), memory: newHistogram(&memoryScale, s.usage.settings.HalfLife),
			first: k.First, last: k.Last, seen: k.Seen, samples: k.Samples, peaks: k.Peaks, ooms: k.OOMs,
		}
		of.cpu.restore(&k.CPU)
		of.memory.restore(&k.Memory)
		s.usage.containers[k.Name] = of
	}
	s.pods = map[string]bool{}
	for i := range c.Instances {
		k := &c.Instances[i]
		s.pods[k.Pod] = true
		s.usage.instances[instanceID{k.Pod, k.Container}] = &instance{k.LastCPU, k.LastMemory, k.End, k.Peak, k.OOMPeak}
		if !k.Killed.IsZero() {
			s.killed[[2]string{k.Pod, k.Container}] = k.Killed
		}
	}
	return nil
}

func unpack(text string) (*saved, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	plain, err := io.ReadAll(io.LimitReader(r, mostUnpacked+1))
	switch {
	case err != nil:
		return nil, err
	case len(plain) > mostUnpacked:
		return nil, fmt.Errorf("must be at most %d bytes unpacked, was more", mostUnpacked)
	}
	c := &saved{}
	if err := json.Unmarshal(plain, c); err != nil {
		return nil, err
	}
	return c, nil
}

// check names what a checkpoint that we wrote never has.
func (c *saved) check(now time.Time, of *Settings) error {
	if c.Version != savedVersion {
		return fmt.Errorf("version: must be %d, was %d", savedVersion, c.Version)
	}
	var faults []error
	// later is how long after now a time may be. An interval ends after what it holds, and a
	// reference time is rounded.
	seen := func(key string, later time.Duration, all ...time.Time) {
		for _, at := range all {
			faults = append(faults, refuse(!at.After(now.Add(aheadFor+later)), key, "must not be in the future", at.Format(time.RFC3339)))
		}
	}
	seen("at", 0, c.At, c.Evicted.At)
	names := map[string]bool{}
	for i := range c.Containers {
		k := &c.Containers[i]
		key := fmt.Sprintf("containers[%s]", k.Name)
		faults = append(faults,
			refuse(k.Name != "" && !names[k.Name], key, "must have a name of its own", k.Name),
			refuse(k.Samples >= 0 && k.Peaks >= 0 && k.OOMs >= 0, key, "must have no number below 0", fmt.Sprint(k.Samples, k.Peaks, k.OOMs)),
			k.CPU.check(key+".cpu", &cpuScale), k.Memory.check(key+".memory", &memoryScale))
		seen(key, 0, k.First, k.Last, k.Seen)
		seen(key, of.PeakInterval+of.HalfLife, k.CPU.Reference, k.Memory.Reference)
		names[k.Name] = true
	}
	for i := range c.Instances {
		k := &c.Instances[i]
		key := fmt.Sprintf("instances[%d]", i)
		seen(key, 0, k.LastCPU, k.LastMemory, k.Killed)
		seen(key, of.PeakInterval, k.End)
		faults = append(faults, refuse(names[k.Container] && k.Pod != "" && k.Peak >= 0 && k.OOMPeak >= 0,
			key, "must be of a container and a pod, and have used something", k.Pod+" "+k.Container))
	}
	return errors.Join(faults...)
}

func (h *histogram) saved() (k savedHistogram) {
	first, last := -1, -1
	for i, w := range h.weights {
		if w != 0 {
			if first < 0 {
				first = i
			}
			last = i
		}
	}
	if first < 0 {
		return savedHistogram{Total: h.total, Reference: h.reference}
	}
	return savedHistogram{first, slices.Clone(h.weights[first : last+1]), h.total, h.reference}
}

func (h *histogram) restore(k *savedHistogram) {
	copy(h.weights[k.From:], k.Weights)
	h.total, h.reference = k.Total, k.Reference
}

func (k *savedHistogram) check(key string, s *scale) error {
	within := k.From >= 0 && k.From <= s.buckets-len(k.Weights)
	sane := func(w float64) bool { return w >= 0 && w <= math.MaxFloat64/2 }
	for _, w := range k.Weights {
		within = within && sane(w)
	}
	return refuse(within && sane(k.Total), key, fmt.Sprintf("must have %d weights at most, none below 0", s.buckets),
		fmt.Sprintf("%d from the %dth on", len(k.Weights), k.From))
}
