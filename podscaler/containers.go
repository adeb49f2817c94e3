package podscaler

import (
	"fmt"
	"math"
	"slices"
)

// The resources that every metrics API serves, by Kubernetes' names.
const (
	ResourceCPU    = "cpu"
	ResourceMemory = "memory"
)

// ContainerUse is what a container of a pod was measured to use: cores on average over the sample's
// span, and bytes at its time.
type ContainerUse struct {
	Name        string
	CPU, Memory Sample
	// Others are what the metrics API serves besides, by the resource's name; nil is nothing.
	Others map[string]Sample
}

// Of is what was measured of a resource.
func (c *ContainerUse) Of(resource string) Sample {
	switch resource {
	case ResourceCPU:
		return c.CPU
	case ResourceMemory:
		return c.Memory
	}
	return c.Others[resource]
}

// Asks is what a pod requests as a HorizontalPodAutoscaler counts it: by container, in thousandths.
// It does not change, so that the pods of one template share it.
type Asks struct {
	// Containers are those that run as long as the pod does: its containers, and behind them the
	// init containers that are restarted.
	Containers []ContainerAsks
	// Whole is what is requested for the pod as a whole, where its spec does that; nil otherwise.
	Whole map[string]int64
}

// ContainerAsks is what a container requests, in thousandths, by the resource's name.
type ContainerAsks struct {
	Name     string
	Requests map[string]int64
}

// Of is what is requested of a resource by a pod, or by one container of it, or why that is not
// known.
func (a *Asks) Of(pod, resource, container string) (thousandths int64, why string) {
	if container == "" && a.Whole != nil {
		n, ok := a.Whole[resource]
		if !ok {
			return 0, fmt.Sprintf("pod %s requests no %s as a whole", pod, resource)
		}
		return n, ""
	}
	found := container == ""
	for i := range a.Containers {
		c := &a.Containers[i]
		if container != "" && container != c.Name {
			continue
		}
		n, ok := c.Requests[resource]
		if !ok {
			return 0, fmt.Sprintf("container %s of pod %s requests no %s", c.Name, pod, resource)
		}
		thousandths, found = thousandths+n, true
	}
	if !found {
		return 0, fmt.Sprintf("pod %s has no container %s", pod, container)
	}
	return thousandths, ""
}

// Used is what a pod, or one container of it, was measured to use of a resource, in thousandths
// that are rounded up container by container, as Kubernetes reads its metrics. What is not
// measured of one container is not known of the pod.
func (p *Pod) Used(resource, container string) (thousandths float64, of Sample, ok bool) {
	for i := range p.Uses {
		c := &p.Uses[i]
		if container != "" && container != c.Name {
			continue
		}
		of = c.Of(resource)
		v, known := of.Number()
		if !known {
			thousandths, ok = 0, false
			break
		}
		thousandths, ok = thousandths+Thousandths(v), true
	}
	if ok || container != "" {
		return thousandths, of, ok
	}
	switch resource {
	case ResourceCPU:
		of = p.CPU
	case ResourceMemory:
		of = p.Memory
	default:
		return 0, Sample{}, false
	}
	v, known := of.Number()
	return Thousandths(v), of, known
}

// Has reports whether a container of that name was measured.
func (p *Pod) Has(container string) bool {
	return slices.ContainsFunc(p.Uses, func(c ContainerUse) bool { return c.Name == container })
}

// Thousandths rounds a measurement up to whole thousandths, as Kubernetes does when it reads a
// metric, and keeps it within what can be counted.
func Thousandths(v float64) float64 {
	const most = 1e18
	return min(max(math.Ceil(v*1000-1e-9), -most), most)
}
