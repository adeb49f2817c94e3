package costs

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/pricing/allocation"
)

// Exporter serves what a cluster costs per hour to Prometheus. All of it is of the last snapshot
// that it was shown. Before that, and after Unknown, it serves that costs are not known, and none:
// neither 0, for nothing is free that is not known, nor NaN, which would spoil the sums over
// several processes of which one leads.
//
// Of namespaces and workloads the dearest MaxLines each have series of their own, and all others
// together one with the name Others. Nodes are as many as there are machines.
type Exporter struct {
	mu       sync.Mutex
	snapshot *nodescaler.Snapshot // that costs are still to be worked out of
	costs    *Costs
}

// MaxLines bounds the series by namespace and by workload.
const MaxLines = 500

// Names in labels that are no names of anything.
const (
	Others      = "(others)"      // what MaxLines omits
	Unallocated = "(unallocated)" // idle and system parts of nodes that no pod pays for
)

// The parts of a cost, as label part has them.
const (
	partAllocated = "allocated"
	partIdle      = "idle"
	partSystem    = "system"
)

// NewExporter makes an exporter that knows nothing yet.
func NewExporter() *Exporter { return &Exporter{} }

// See shows the exporter a snapshot, which it only reads. Costs are worked out when they are asked
// for.
func (e *Exporter) See(s *nodescaler.Snapshot) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.snapshot, e.costs = s, nil
}

// Unknown says that the cluster or its machines could not be seen.
func (e *Exporter) Unknown() { e.See(nil) }

// Costs returns what the last snapshot costs, or nil if that is not known.
func (e *Exporter) Costs() *Costs {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.snapshot != nil {
		e.costs, _ = Of(e.snapshot) // prices that do not add up are not known
		e.snapshot = nil
	}
	return e.costs
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	descKnown = desc("plimsoll_cost_known", "Whether costs are known: 1, or 0.")
	descInfo  = desc("plimsoll_cost_info", "1 for the currency of all costs.", "currency")

	descTotal     = desc("plimsoll_cost_per_hour", "What all priced machines cost an hour, by part: allocated, idle and system.", "part")
	descNode      = desc("plimsoll_node_cost_per_hour", "What a node costs an hour, its share of its host's fixed part included, by part: allocated, idle and system.", "node", "pool", "host", "part")
	descPool      = desc("plimsoll_pool_cost_per_hour", "What a pool's nodes cost an hour, by part.", "pool", "part")
	descNamespace = desc("plimsoll_namespace_cost_per_hour", "What a namespace's pods cost an hour, by part: allocated, and their share of what is idle and the system's on their nodes.", "namespace", "part")
	descWorkload  = desc("plimsoll_workload_cost_per_hour", "What a workload's pods cost an hour, by part.", "namespace", "workload", "part")

	descAvoidable          = desc("plimsoll_avoidable_cost_per_hour", "What would be saved an hour by doing without the nodes that could be done without.")
	descNodeAvoidable      = desc("plimsoll_node_avoidable_cost_per_hour", "What would be saved an hour by doing without a node, if it could be done without.", "node", "pool", "host")
	descPoolAvoidable      = desc("plimsoll_pool_avoidable_cost_per_hour", "What would be saved an hour by doing without those of a pool's nodes that could be done without.", "pool")
	descNamespaceAvoidable = desc("plimsoll_namespace_avoidable_cost_per_hour", "What could be saved an hour besides if a namespace's pods were gone. These do not add up.", "namespace")
	descWorkloadAvoidable  = desc("plimsoll_workload_avoidable_cost_per_hour", "What could be saved an hour besides if a workload's pods were gone. These do not add up.", "namespace", "workload")

	descUnpricedNodes = desc("plimsoll_unpriced_nodes", "Nodes without a price. They are in no cost.")
	descUnpricedPods  = desc("plimsoll_unpriced_pods", "Pods on nodes without a price. They are in no cost.")
	descMerged        = desc("plimsoll_cost_series_merged", "How many namespaces and workloads are counted as (others) because there are too many.", "by")

	openCost          = []string{"instance", "node", "instance_type", "region", "provider_id", "arch"}
	descOpenCostCPU   = desc("node_cpu_hourly_cost", "What an hour of one vCPU of the node costs, as OpenCost names it.", openCost...)
	descOpenCostRAM   = desc("node_ram_hourly_cost", "What an hour of one GiB of the node's memory costs, as OpenCost names it.", openCost...)
	descOpenCostTotal = desc("node_total_hourly_cost", "What an hour of the node costs, as OpenCost names it.", openCost...)
)

// Describe implements prometheus.Collector.
func (e *Exporter) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descKnown, descInfo, descTotal, descNode, descPool, descNamespace, descWorkload,
		descAvoidable, descNodeAvoidable, descPoolAvoidable, descNamespaceAvoidable, descWorkloadAvoidable,
		descUnpricedNodes, descUnpricedPods, descMerged, descOpenCostCPU, descOpenCostRAM, descOpenCostTotal,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (e *Exporter) Collect(to chan<- prometheus.Metric) {
	s := sink{to}
	c := e.Costs()
	if c == nil {
		s.put(descKnown, 0)
		return
	}
	s.put(descKnown, 1)
	s.put(descInfo, 1, c.Currency)
	s.parts(descTotal, &c.Total)
	s.put(descAvoidable, c.Total.Avoidable.Units())
	s.put(descUnpricedNodes, float64(len(c.Unpriced)))
	s.put(descUnpricedPods, float64(c.Total.Unpriced))
	for i := range c.Nodes {
		s.node(c, &c.Nodes[i])
	}
	for i := range c.Pools {
		l := &c.Pools[i]
		if l.Nodes == 0 && c.unpriced(l.Name) {
			continue
		}
		s.parts(descPool, l, l.Name)
		s.put(descPoolAvoidable, l.Avoidable.Units(), l.Name)
	}
	s.groups("namespace", c.Namespaces, descNamespace, descNamespaceAvoidable, func(name string) []string { return []string{name} })
	s.groups("workload", c.Workloads, descWorkload, descWorkloadAvoidable, func(name string) []string {
		namespace, rest, ok := strings.Cut(name, "/")
		if !ok {
			return []string{"", name}
		}
		return []string{namespace, rest}
	})
}

// sink takes gauges.
type sink struct{ to chan<- prometheus.Metric }

func (s sink) put(d *prometheus.Desc, value float64, labels ...string) {
	s.to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// parts puts the parts of a line.
func (s sink) parts(d *prometheus.Desc, l *allocation.Line, labels ...string) {
	for _, p := range []struct {
		name string
		cost pricing.Rate
	}{{partAllocated, l.Allocated}, {partIdle, l.Idle}, {partSystem, l.System}} {
		s.put(d, p.cost.Units(), append(labels[:len(labels):len(labels)], p.name)...)
	}
}

// node puts what a node costs, under our names and under OpenCost's.
func (s sink) node(c *Costs, n *allocation.NodeLine) {
	s.parts(descNode, &n.Line, n.Name, n.Pool, n.Host)
	s.put(descNodeAvoidable, n.Avoidable.Units(), n.Name, n.Pool, n.Host)
	f := c.Facts[n.Name]
	labels := []string{n.Name, n.Name, f.Shape, f.Region, f.ProviderID, f.Arch}
	s.put(descOpenCostCPU, n.Parts.CPU.Units()/(float64(n.Size.CPU)/float64(pricing.Core)), labels...)
	s.put(descOpenCostRAM, n.Parts.Memory.Units()/(float64(n.Size.Memory)/float64(pricing.GiB)), labels...)
	s.put(descOpenCostTotal, n.Cost.Units(), labels...)
}

// groups puts the dearest of namespaces or workloads, and the others together.
func (s sink) groups(by string, lines []allocation.Line, cost, avoidable *prometheus.Desc, labels func(name string) []string) {
	kept, others, merged := top(lines, MaxLines)
	for i := range kept {
		l := &kept[i]
		switch {
		case l.Pods == 0 && l.Unpriced > 0:
			continue // what it costs is not known
		case l.Name == allocation.Nobody:
			s.parts(cost, l, labels(Unallocated)...)
			continue // nothing is saved if no one is gone
		}
		s.parts(cost, l, labels(l.Name)...)
		s.put(avoidable, l.Avoidable.Units(), labels(l.Name)...)
	}
	if merged > 0 {
		s.parts(cost, &others, labels(Others)...)
	}
	s.put(descMerged, float64(merged), by)
}
