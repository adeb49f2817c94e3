package rightsize

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Checkpoint is a usage as it can be kept, in JSON for one. A usage that was kept and restored
// goes on exactly as if it had not been.
type Checkpoint struct {
	Version    int                   `json:"version"`
	Containers []ContainerCheckpoint `json:"containers"`
	Instances  []InstanceCheckpoint  `json:"instances,omitempty"`
}

// ContainerCheckpoint is what is known of all containers of a name.
type ContainerCheckpoint struct {
	Name    string              `json:"name"`
	CPU     HistogramCheckpoint `json:"cpu"`
	Memory  HistogramCheckpoint `json:"memory"`
	First   time.Time           `json:"first"`
	Last    time.Time           `json:"last"`
	Samples int                 `json:"samples"`
	Peaks   int                 `json:"peaks"`
	OOMs    int                 `json:"ooms,omitempty"`
	Seen    time.Time           `json:"seen"`
}

// HistogramCheckpoint is a distribution: the weight of each bucket that has any.
type HistogramCheckpoint struct {
	Reference time.Time       `json:"reference"`
	Total     float64         `json:"total"`
	Weights   map[int]float64 `json:"weights"`
}

// InstanceCheckpoint is what is known of a container of a pod. Without it, the peak of the present
// interval counts twice.
type InstanceCheckpoint struct {
	Pod        string        `json:"pod"`
	Container  string        `json:"container"`
	LastCPU    time.Time     `json:"lastCPU"`
	LastMemory time.Time     `json:"lastMemory"`
	End        time.Time     `json:"end"`
	Peak       pricing.Bytes `json:"peak,omitempty"`
	OOMPeak    pricing.Bytes `json:"oomPeak,omitempty"`
}

// checkpointVersion changes when the buckets do, or what is kept.
const checkpointVersion = 1

// Checkpoint returns what is known, sorted by name.
func (u *Usage) Checkpoint() Checkpoint {
	cp := Checkpoint{Version: checkpointVersion}
	for _, name := range u.names() {
		c := u.containers[name]
		cp.Containers = append(cp.Containers, ContainerCheckpoint{
			Name: name, CPU: c.cpu.checkpoint(), Memory: c.memory.checkpoint(),
			First: c.first, Last: c.last, Samples: c.samples, Peaks: c.peaks, OOMs: c.ooms, Seen: c.seen,
		})
	}
	for id, i := range u.instances {
		cp.Instances = append(cp.Instances, InstanceCheckpoint{
			Pod: id.pod, Container: id.container, LastCPU: i.lastCPU, LastMemory: i.lastMemory,
			End: i.end, Peak: i.peak, OOMPeak: i.oomPeak,
		})
	}
	slices.SortFunc(cp.Instances, func(a, b InstanceCheckpoint) int {
		return compareNames([2]string{a.Pod, a.Container}, [2]string{b.Pod, b.Container})
	})
	return cp
}

func compareNames(a, b [2]string) int { return slices.Compare(a[:], b[:]) }

func (h *histogram) checkpoint() HistogramCheckpoint {
	cp := HistogramCheckpoint{Reference: h.reference, Total: h.total, Weights: make(map[int]float64)}
	for i, w := range h.weights {
		if w > 0 {
			cp.Weights[i] = w
		}
	}
	return cp
}

// Restore returns the usage that a checkpoint was made of, or says why it cannot be one.
func Restore(s Settings, cp Checkpoint) (*Usage, error) {
	u := New(s)
	if err := refuse(cp.Version == checkpointVersion, "version", "must be 1", cp.Version); err != nil {
		return nil, err
	}
	var faults []error
	for _, c := range cp.Containers {
		if err := u.restore(&c); err != nil {
			faults = append(faults, err)
		}
	}
	for _, i := range cp.Instances {
		key := fmt.Sprintf("instances[%s/%s]", i.Pod, i.Container)
		faults = append(faults,
			refuse(u.containers[i.Container] != nil, key+".container", "must be one of containers", fmt.Sprintf("%q", i.Container)),
			refuse(i.Peak >= 0 && i.Peak <= most, key+".peak", "must be between 0 and 1e14", int64(i.Peak)),
			refuse(i.OOMPeak >= 0 && i.OOMPeak <= most, key+".oomPeak", "must be between 0 and 1e14", int64(i.OOMPeak)))
		u.instances[instanceID{i.Pod, i.Container}] = &instance{i.LastCPU, i.LastMemory, i.End, i.Peak, i.OOMPeak}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return u, nil
}

func (u *Usage) restore(cp *ContainerCheckpoint) error {
	key := fmt.Sprintf("containers[%s]", cp.Name)
	c := &container{first: cp.First, last: cp.Last, samples: cp.Samples, peaks: cp.Peaks, ooms: cp.OOMs, seen: cp.Seen}
	var cpuFaults, memoryFaults error
	c.cpu, cpuFaults = cp.CPU.restore(key+".cpu", &cpuScale, u.settings.HalfLife)
	c.memory, memoryFaults = cp.Memory.restore(key+".memory", &memoryScale, u.settings.HalfLife)
	err := errors.Join(
		refuse(cp.Name != "", "containers[].name", "must be a container's name", `""`),
		refuse(u.containers[cp.Name] == nil, key, "must be there once", "twice"),
		refuse(cp.Samples >= 0, key+".samples", "must be ≥ 0", cp.Samples),
		refuse(!cp.Last.Before(cp.First), key+".last", "must not be before first, "+cp.First.Format(time.RFC3339), cp.Last.Format(time.RFC3339)),
		cpuFaults, memoryFaults)
	u.containers[cp.Name] = c
	return err
}

// restore fills a histogram. Weights are checked because one that is no number would make
// every percentile the first bucket, which is to shrink by what is unknown.
func (cp *HistogramCheckpoint) restore(key string, s *scale, halfLife time.Duration) (*histogram, error) {
	h := newHistogram(s, halfLife)
	h.reference, h.total = cp.Reference, cp.Total
	fine := func(w float64) bool { return w >= 0 && !math.IsInf(w, 0) }
	faults := []error{refuse(fine(cp.Total), key+".total", "must be a number ≥ 0", cp.Total)}
	sum := 0.0
	for _, bucket := range slices.Sorted(maps.Keys(cp.Weights)) {
		w, at := cp.Weights[bucket], fmt.Sprintf("%s.weights[%d]", key, bucket)
		if err := errors.Join(
			refuse(bucket >= 0 && bucket < s.buckets, at, fmt.Sprintf("must be a bucket from 0 to %d", s.buckets-1), bucket),
			refuse(fine(w), at, "must be a number ≥ 0", w),
		); err != nil {
			faults = append(faults, err)
			continue
		}
		h.weights[bucket] = w
		sum += w
	}
	// They are not equal: what is added up in another order is rounded elsewhere, and crumbs are
	// cleared bucket by bucket.
	near := math.Abs(sum-cp.Total) <= epsilon*float64(s.buckets)+1e-3*sum
	faults = append(faults, refuse(near, key+".total", fmt.Sprintf("must be the sum of weights, %g", sum), cp.Total))
	return h, errors.Join(faults...)
}
