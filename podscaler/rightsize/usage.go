package rightsize

import (
	"maps"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Usage is what the containers of one workload have been seen to use. Containers of the same name
// in its pods are one: what one of them was seen to use, the others may need.
//
// It may be forgotten: then nothing is recommended until something has been measured anew, and
// bounds are as wide as on the first day.
type Usage struct {
	settings   Settings
	containers map[string]*container
	instances  map[instanceID]*instance
}

// container is what is known of all containers of a name.
type container struct {
	cpu, memory *histogram
	first, last time.Time // of the samples of CPU, which history is measured by
	samples     int       // of CPU
	peaks, ooms int       // of memory: intervals that have one, and kills
	seen        time.Time // the last sample of anything
}

// instanceID names a container of a pod.
type instanceID struct{ pod, container string }

// instance is what is known of a container of a pod: what distinguishes a new sample from one that
// counts already.
type instance struct {
	lastCPU, lastMemory time.Time
	// end is when the interval ends that peaks are of. The peak of use and the one made up for a
	// kill are apart: the next kill is to be measured by use, or each would raise the last one.
	end           time.Time
	peak, oomPeak pricing.Bytes
}

// New returns a usage of which nothing is known. The settings must be valid.
func New(s Settings) *Usage {
	return &Usage{settings: s, containers: make(map[string]*container), instances: make(map[instanceID]*instance)}
}

// of returns what is known of a container, of its name and of itself.
func (u *Usage) of(id instanceID) (*container, *instance) {
	c, known := u.containers[id.container]
	if !known {
		c = &container{
			cpu:    newHistogram(&cpuScale, u.settings.HalfLife),
			memory: newHistogram(&memoryScale, u.settings.HalfLife),
		}
		u.containers[id.container] = c
	}
	i, known := u.instances[id]
	if !known {
		i = &instance{}
		u.instances[id] = i
	}
	return c, i
}

// valid reports whether a sample can have been measured.
func valid(at time.Time, used int64) bool { return !at.IsZero() && used >= 0 && used <= most }

func (c *container) sawAt(at time.Time) {
	if at.After(c.seen) {
		c.seen = at
	}
}

// AddCPU takes what a container used on average over a short time that began at a time, and reports
// whether it counts. What is not newer than the container's last sample does not count: it is most
// often the same one, read twice.
func (u *Usage) AddCPU(pod, name string, at time.Time, used pricing.MilliCPU) bool {
	if !valid(at, int64(used)) {
		return false
	}
	c, i := u.of(instanceID{pod, name})
	if !at.After(i.lastCPU) {
		return false
	}
	c.cpu.add(float64(used)/1000, leastWeight, at)
	i.lastCPU = at
	if c.samples == 0 || at.Before(c.first) {
		c.first = at
	}
	if at.After(c.last) {
		c.last = at
	}
	c.samples++
	c.sawAt(at)
	return true
}

// AddMemory takes what a container used at a time, and reports whether it counts: what is older
// than the container's last sample does not. Only the peak of an interval becomes a sample.
func (u *Usage) AddMemory(pod, name string, at time.Time, used pricing.Bytes) bool {
	if !valid(at, int64(used)) {
		return false
	}
	c, i := u.of(instanceID{pod, name})
	if at.Before(i.lastMemory) {
		return false
	}
	u.peak(c, i, at, used, false)
	return true
}

// OOM takes that a container was killed for memory at a time, when it requested so much, and
// reports whether it counts: what is an interval older than the last sample does not.
func (u *Usage) OOM(pod, name string, at time.Time, requested pricing.Bytes) bool {
	if !valid(at, int64(requested)) {
		return false
	}
	c, i := u.of(instanceID{pod, name})
	if !i.lastMemory.IsZero() && at.Before(i.lastMemory.Add(-u.settings.PeakInterval)) {
		return false
	}
	had := max(requested, i.peak)
	needed := max(had+u.settings.OOMStep, pricing.Bytes(scaled(int64(had), u.settings.OOMRatio)))
	u.peak(c, i, at, needed, true)
	c.ooms++
	return true
}

// peak takes a sample of memory. It replaces the peak of the interval if it is higher, and is the
// peak of a new interval. The weight is that of the interval's end, so that it can be found again.
func (u *Usage) peak(c *container, i *instance, at time.Time, used pricing.Bytes, oom bool) {
	i.lastMemory = at
	c.sawAt(at)
	if i.end.IsZero() {
		i.end = at
	}
	if at.Before(i.end) {
		old := max(i.peak, i.oomPeak)
		if old == 0 || used <= old {
			return
		}
		c.memory.take(float64(old), 1, i.end)
	} else {
		i.end = i.end.Add(at.Sub(i.end).Truncate(u.settings.PeakInterval) + u.settings.PeakInterval)
		i.peak, i.oomPeak = 0, 0
		c.peaks++
	}
	c.memory.add(float64(used), 1, i.end)
	if oom {
		i.oomPeak = used
	} else {
		i.peak = used
	}
}

// Gone takes that a pod is no more. What it used still counts.
func (u *Usage) Gone(pod string) {
	maps.DeleteFunc(u.instances, func(id instanceID, _ *instance) bool { return id.pod == pod })
}

// Forget drops what has not been seen for all the peak intervals until a time, containers that are
// no longer in the workload above all: they would be recommended for, and share in the floor, for
// ever.
func (u *Usage) Forget(now time.Time) {
	window := u.settings.PeakInterval * time.Duration(u.settings.PeakIntervals)
	old := func(seen time.Time) bool { return now.Sub(seen) >= window }
	maps.DeleteFunc(u.containers, func(_ string, c *container) bool { return old(c.seen) })
	maps.DeleteFunc(u.instances, func(id instanceID, i *instance) bool {
		return u.containers[id.container] == nil || old(i.lastCPU) && old(i.lastMemory)
	})
}

// names returns the names of the containers, sorted.
func (u *Usage) names() []string { return slices.Sorted(maps.Keys(u.containers)) }

// history is how many days the samples of a container are good for: the days between the first and
// the last one, or fewer if there was less than one sample a minute.
func (c *container) history() float64 {
	const day = 24 * time.Hour
	return min(float64(c.last.Sub(c.first))/float64(day), float64(c.samples)/day.Minutes())
}
