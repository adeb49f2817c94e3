package operator

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pve"
)

// Metrics is all that the loop reports of itself. Every series whose labels are known is there from
// the start, as 0: a rate over a series that appears with its first event misses that event.
type Metrics struct {
	stepSeconds   prometheus.Histogram
	lastStep      prometheus.Gauge
	interval      prometheus.Gauge
	leader        *prometheus.GaugeVec
	components    []string
	info          *prometheus.GaugeVec
	decisions     *prometheus.CounterVec
	actions       *prometheus.CounterVec
	problems      *prometheus.CounterVec
	notifications *prometheus.CounterVec
	replicas      *prometheus.GaugeVec
	desired       *prometheus.GaugeVec
	forecast      *prometheus.GaugeVec
	ready         *prometheus.GaugeVec
	pending       *prometheus.GaugeVec
	limits        *prometheus.GaugeVec
	latency       *prometheus.GaugeVec
	good          *prometheus.GaugeVec
	budget        *prometheus.GaugeVec
	burn          *prometheus.GaugeVec
	heldWorkloads *prometheus.GaugeVec
	unschedulable prometheus.Gauge
	podsUnplaced  *prometheus.GaugeVec
	machines      *prometheus.GaugeVec
	poolLimits    *prometheus.GaugeVec
	heldPools     *prometheus.GaugeVec
	heldMachines  *prometheus.GaugeVec
	rollouts      *prometheus.GaugeVec
	orphans       *prometheus.GaugeVec
	costRate      *prometheus.GaugeVec
	costLimit     *prometheus.GaugeVec
	conditions    *prometheus.GaugeVec
	conditionsNow []conditionSeries
	sizedCPU      *prometheus.GaugeVec
	sizedMemory   *prometheus.GaugeVec
	resizes       *prometheus.CounterVec
	roomPods      *prometheus.GaugeVec
	roomRate      *prometheus.GaugeVec

	known map[string]*decided // by workload
	mu    *sync.RWMutex       // held while series are set anew
}

// decided is what a workload's last decision was, and what it went by. It is shown until the next.
type decided struct {
	to       int
	forecast podscaler.Forecast
	inputs   *loop.Inputs
}

// whole is series that are scraped between steps only: a step begins some of them anew.
type whole struct {
	*prometheus.GaugeVec
	mu *sync.RWMutex
}

// Collect implements [prometheus.Collector].
func (w whole) Collect(to chan<- prometheus.Metric) {
	w.mu.RLock()
	defer w.mu.RUnlock()
	w.GaugeVec.Collect(to)
}

var (
	phases      = []nodescaler.Phase{nodescaler.Ordered, nodescaler.Booting, nodescaler.Joined, nodescaler.Spare, nodescaler.Deleting, nodescaler.Failed}
	kinds       = []nodescaler.Kind{nodescaler.Buy, nodescaler.Cordon, nodescaler.Uncordon, nodescaler.Evict, nodescaler.DeletePod, nodescaler.Return, nodescaler.Stash, nodescaler.Wake, nodescaler.Reboot}
	orphanKinds = []pve.OrphanKind{
		pve.MachineWithoutNode, pve.NodeWithoutMachine, pve.DiscWithoutMachine, pve.IntentWithout, pve.UnprovedMachine, pve.UnseenMachine,
	}
	codes = []string{
		loop.CodeClusterUnknown, loop.CodeMachinesUnknown, loop.CodeSignalsUnknown, loop.CodeLooking,
		loop.CodeNoSuchWorkload, loop.CodePlanRefused, loop.CodeOrderLost, loop.CodeCostUnknown, loop.CodePodsNotMarked, CodeStatusNotWritten, CodeJournalNotWritten,
	}
)

// The directions of decisions on replicas, and what came of decisions and actions.
const (
	up, down, none = "up", "down", "none"

	resultDone   = "done"   // carried out
	resultFailed = "failed" // tried in vain
	resultHeld   = "held"   // recommended only
)

var results = []string{resultDone, resultFailed, resultHeld}

// Codes of what goes wrong around a step.
const (
	CodeStatusNotWritten  = "StatusNotWritten"  // a status could not be written
	CodeReceiverUnknown   = "ReceiverUnknown"   // an object names a receiver that is not configured
	CodeJournalNotWritten = "JournalNotWritten" // the record of a step could not be kept
)

// NewMetrics makes the metrics of the loop, and registers them.
func NewMetrics(to prometheus.Registerer) (*Metrics, error) {
	var errs []error
	mu := &sync.RWMutex{}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "plimsoll_" + name, Help: help}, labels)
		errs = append(errs, to.Register(whole{v, mu}))
		return v
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "plimsoll_" + name, Help: help}, labels)
		errs = append(errs, to.Register(v))
		return v
	}
	steps := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "plimsoll_loop_step_seconds", Help: "How long steps of the loop took: observing, deciding and acting. Signals are measured and statuses written beside them.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	})
	errs = append(errs, to.Register(steps))
	m := &Metrics{
		mu: mu,

		stepSeconds:   steps,
		lastStep:      gauge("loop_last_step_timestamp_seconds", "When the last step of the loop ended; 0 is never.").WithLabelValues(),
		interval:      gauge("loop_interval_seconds", "The time between two steps of the loop, if nothing happens.").WithLabelValues(),
		leader:        gauge("leader", "Whether this process decides for a component that it runs: 1, or 0.", "component"),
		info:          gauge("mode_info", "1 for the mode that plimsoll run is in.", "mode"),
		decisions:     counter("decisions_total", "Decisions on replicas, by their direction and what came of them.", "direction", "result"),
		actions:       counter("actions_total", "Actions of node plans, by their kind and what came of them.", "kind", "result"),
		problems:      counter("problems_total", "What went wrong in steps, by code.", "code"),
		replicas:      gauge("workload_replicas", "The replicas that Plimsoll set for a workload.", "namespace", "name"),
		desired:       gauge("workload_desired_replicas", "The replicas that a workload should have by the last decision.", "namespace", "name"),
		forecast:      gauge("workload_forecast_load", "The load that a workload's policy expects by when a new replica is ready: requests_per_second, or the cores that they need. Without a forecast there is no series.", "namespace", "name", "unit"),
		ready:         gauge("workload_ready_replicas", "How many of a workload's pods are ready.", "namespace", "name"),
		pending:       gauge("workload_pending_replicas", "How many replicas of a workload are not ready yet.", "namespace", "name"),
		limits:        gauge("workload_limit_replicas", "The bounds of a workload's replicas: min and max.", "namespace", "name", "bound"),
		latency:       gauge("workload_latency_seconds", "The objective's quantile of response times: as measured at the last decision, and its target.", "namespace", "name", "kind"),
		good:          gauge("workload_good_ratio", "The share of requests that were answered within the objective's target, over its window.", "namespace", "name"),
		budget:        gauge("workload_error_budget_ratio", "The share of requests that an objective lets be late, and the share of those of 30 days that is left.", "namespace", "name", "part"),
		burn:          gauge("workload_burn_rate", "How many times as many requests were late as the objective lets be, by window.", "namespace", "name", "window"),
		heldWorkloads: gauge("workload_held", "1 for the reason why a workload is decided for and left as it is.", "namespace", "name", "reason"),
		unschedulable: gauge("pods_unschedulable", "Pods that the scheduler found no node for.").WithLabelValues(),
		podsUnplaced:  gauge("pods_unplaced", "Pods that wait and that no machine would help, by reason.", "reason"),
		machines:      gauge("machines", "Machines, by pool and phase.", "pool", "phase"),
		poolLimits:    gauge("pool_limit_machines", "The bounds of a pool's machines: min and max.", "pool", "bound"),
		heldPools:     gauge("pool_held", "1 for the reason why a pool is planned for and left as it is.", "pool", "reason"),
		heldMachines:  gauge("machines_held", "Machines that nothing takes down, by pool and reason.", "pool", "reason"),
		rollouts:      gauge("rollout_machines", "Machines of pools that replace drifted ones, by the phase of the rollout and whether they are of its revision: updated or outdated.", "pool", "phase", "machines"),
		orphans:       gauge("orphans", "What is left over on Proxmox VE or in the cluster, by kind.", "kind"),
		costRate:      gauge("machines_cost_per_hour", "What machines cost an hour, in the price book's currency: those that have joined, and all.", "machines", "currency"),
		costLimit:     gauge("machines_cost_limit_per_hour", "What all machines may cost an hour, in the price book's currency. Without a limit there is no series.", "currency"),
		notifications: counter("notifications_total", "Notices to people, by receiver and whether they arrived.", "receiver", "result"),
		sizedCPU:      gauge("container_recommended_cpu_cores", "What the containers of a workload should request: target, its bounds lower and upper, and uncapped.", "namespace", "name", "container", "bound"),
		sizedMemory:   gauge("container_recommended_memory_bytes", "What the containers of a workload should request: target, its bounds lower and upper, and uncapped.", "namespace", "name", "container", "bound"),
		resizes:       counter("resizes_total", "Resizes of pods that were asked for, by what came of it.", "result"),
		roomPods:      gauge("headroom_pods", "Pods for which room is to be kept free, and for which there is room or machines are coming.", "namespace", "name", "state"),
		roomRate:      gauge("headroom_cost_per_hour", "The part of what machines cost an hour that is headroom's, by its requests.", "namespace", "name", "currency"),
		conditions:    gauge("condition", "1 while a condition of one of our own objects is True, 0 while it is False.", "kind", "namespace", "name", "type"),
	}
	m.start()
	m.left(&pve.Report{})
	return m, errors.Join(errs...)
}

// start makes the series whose labels are known.
func (m *Metrics) start() {
	for _, r := range results {
		for _, way := range []string{up, down} {
			m.decisions.WithLabelValues(way, r)
		}
		for _, k := range kinds {
			m.actions.WithLabelValues(string(k), r)
		}
	}
	m.noneUnplaced()
	m.decisions.WithLabelValues(none, resultDone)
	for _, r := range []string{resultDone, resultFailed} {
		m.resizes.WithLabelValues(r)
	}
	for _, c := range codes {
		m.problems.WithLabelValues(c)
	}
}

// Leading sets whether this process leads. A process that no longer leads shows no series of the
// cluster: they would go on saying what was, beside those of the new leader.
func (m *Metrics) Leading(leads bool) {
	if leads {
		m.leads(1)
		return
	}
	m.leads(0)
	m.left(&pve.Report{})
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, v := range []*prometheus.GaugeVec{
		m.replicas, m.desired, m.forecast, m.ready, m.pending, m.limits, m.latency, m.good, m.budget, m.burn, m.heldWorkloads, m.machines, m.poolLimits, m.heldPools, m.heldMachines, m.rollouts, m.costRate, m.costLimit, m.conditions,
		m.sizedCPU, m.sizedMemory, m.roomPods, m.roomRate,
	} {
		v.Reset()
	}
	m.unschedulable.Set(0)
	m.noneUnplaced()
	m.known, m.conditionsNow = nil, nil
}

// Receivers makes the series of the receivers.
func (m *Metrics) Receivers(names []string) {
	for _, name := range names {
		for _, result := range []string{resultArrived, resultGivenUp} {
			m.notifications.WithLabelValues(name, result)
		}
	}
}

// Notified counts a notice that arrived, or was given up.
func (m *Metrics) Notified(receiver string, arrived bool) {
	result := resultGivenUp
	if arrived {
		result = resultArrived
	}
	m.notifications.WithLabelValues(receiver, result).Inc()
}

// What came of a notice.
const (
	resultArrived = "arrived"
	resultGivenUp = "givenUp"
)

// Runs sets the mode, the components that this process decides for while it leads, and how often.
func (m *Metrics) Runs(mode string, components []string, interval time.Duration) {
	m.info.WithLabelValues(mode).Set(1)
	m.interval.Set(interval.Seconds())
	m.components = components
	m.leads(0)
}

func (m *Metrics) leads(value float64) {
	for _, name := range m.components {
		m.leader.WithLabelValues(name).Set(value)
	}
}

// step counts a step that began at a time and has ended.
func (m *Metrics) step(s *loop.Step, began, ended time.Time) {
	m.stepSeconds.Observe(ended.Sub(began).Seconds())
	m.lastStep.Set(float64(ended.UnixNano()) / 1e9)
	for _, p := range s.Problems {
		m.problems.WithLabelValues(p.Code).Inc()
	}
	m.count(s)
}

// show sets the series of what is on the desk, and of what was said of it. What is not there any
// more has no series any more.
func (m *Metrics) show(d *desk, s *loop.Step, machines *counted, said map[types.UID]any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.unschedulable.Set(float64(s.Observed.Pending))
	m.unplaced(s)
	m.headroom(s)
	m.showWorkloads(d, s)
	m.showPools(d, s, machines)
	m.said(d, said)
	m.showSizes(d, s)
}

// count counts what was decided and what came of it.
func (m *Metrics) count(s *loop.Step) {
	for i := range s.Workloads {
		w := &s.Workloads[i]
		switch d := w.Decision; {
		case d == nil:
		case d.To == d.From:
			m.decisions.WithLabelValues(none, resultDone).Inc()
		case d.To > d.From:
			m.decisions.WithLabelValues(up, resultOf(s.Rescaled(w.Workload), w.Held)).Inc()
		default:
			m.decisions.WithLabelValues(down, resultOf(s.Rescaled(w.Workload), w.Held)).Inc()
		}
	}
	for i := range s.Plan.Actions {
		m.actions.WithLabelValues(string(s.Plan.Actions[i].Kind), resultOf(s.Tried(i), nil)).Inc()
	}
}

func resultOf(o *loop.Outcome, held *nodescaler.Reason) string {
	switch {
	case held != nil || o == nil || o.Held != nil:
		return resultHeld
	case o.Error != "":
		return resultFailed
	}
	return resultDone
}

func (m *Metrics) showWorkloads(d *desk, s *loop.Step) {
	for _, v := range []*prometheus.GaugeVec{
		m.replicas, m.desired, m.forecast, m.ready, m.pending, m.limits, m.latency, m.good, m.budget, m.burn, m.heldWorkloads,
	} {
		v.Reset()
	}
	known := make(map[string]*decided, len(d.workloads))
	for _, w := range d.workloads {
		ns, name := w.object.Namespace, w.object.Name
		m.limits.WithLabelValues(ns, name, "min").Set(float64(w.words.Min))
		m.limits.WithLabelValues(ns, name, "max").Set(float64(w.words.Max))
		if w.held != nil {
			m.heldWorkloads.WithLabelValues(ns, name, w.held.Code).Set(1)
		}
		last := m.known[w.name]
		if ws := workloadStep(s, w.name); ws != nil && w.target.Known {
			m.replicas.WithLabelValues(ns, name).Set(float64(ws.Replicas))
			m.ready.WithLabelValues(ns, name).Set(float64(ws.Ready))
			m.pending.WithLabelValues(ns, name).Set(float64(ws.Pending))
			if ws.Decision != nil {
				last = &decided{ws.Decision.To, ws.Decision.Forecast, ws.Inputs}
			}
		}
		if last != nil {
			known[w.name] = last
			m.decided(ns, name, last)
		}
	}
	m.known = known
}

// decided shows what was decided last.
func (m *Metrics) decided(ns, name string, last *decided) {
	m.desired.WithLabelValues(ns, name).Set(float64(last.to))
	if f := last.forecast; f.Known() {
		m.forecast.WithLabelValues(ns, name, string(f.Unit)).Set(f.Load)
	}
	if in := last.inputs; in != nil && in.TargetMs > 0 {
		m.objective(ns, name, in)
	}
}

// objective shows what an objective was measured to be.
func (m *Metrics) objective(ns, name string, in *loop.Inputs) {
	m.latency.WithLabelValues(ns, name, "target").Set(in.TargetMs / 1e3)
	if in.LatencyMs != nil {
		m.latency.WithLabelValues(ns, name, "measured").Set(*in.LatencyMs / 1e3)
	}
	if in.Good != nil {
		m.good.WithLabelValues(ns, name).Set(*in.Good)
	}
	if b := in.Budget; b != nil {
		m.budget.WithLabelValues(ns, name, "late").Set(b.Late)
		m.budget.WithLabelValues(ns, name, "left").Set(b.Left)
		for _, r := range b.Burn {
			m.burn.WithLabelValues(ns, name, pricing.Short(time.Duration(r.Over))).Set(r.Rate)
		}
	}
}

// showPools sets the series of the pools and their machines. Machines that are not known have no
// series: unknown is not 0.
func (m *Metrics) showPools(d *desk, s *loop.Step, machines *counted) {
	for _, v := range []*prometheus.GaugeVec{m.machines, m.poolLimits, m.heldPools, m.heldMachines, m.rollouts, m.costRate, m.costLimit} {
		v.Reset()
	}
	if d.limit > 0 {
		m.costLimit.WithLabelValues(cmp.Or(d.prices, pricing.DefaultBook()).Unit).Set(d.limit.Units())
	}
	for _, p := range d.pools {
		name := p.object.Name
		m.poolLimits.WithLabelValues(name, "min").Set(float64(p.object.Spec.Min))
		m.poolLimits.WithLabelValues(name, "max").Set(float64(p.object.Spec.Max))
		if p.held != nil {
			m.heldPools.WithLabelValues(name, p.held.Code).Set(1)
		}
		if r, is := s.Rollouts[name]; is {
			m.rollouts.WithLabelValues(name, string(r.Phase), "updated").Set(float64(r.Updated))
			m.rollouts.WithLabelValues(name, string(r.Phase), "outdated").Set(float64(r.Total - r.Updated))
		}
		if s.Observed.Machines != nil {
			m.poolsMachines(name, machines.heldOf(name))
		}
	}
	for i := range machines.state.Machines {
		w := &machines.state.Machines[i]
		m.machines.WithLabelValues(w.Pool, string(w.Phase)).Inc()
	}
	if c := &s.Observed.Cost; c.Known {
		m.costRate.WithLabelValues("joined", c.Unit).Set(c.Joined.Units())
		m.costRate.WithLabelValues("all", c.Unit).Set(c.Ordered.Units())
	}
}

// poolsMachines begins the counts of a pool's machines, and counts those that are held.
func (m *Metrics) poolsMachines(pool string, held []heldMachine) {
	for _, phase := range phases {
		m.machines.WithLabelValues(pool, string(phase)).Set(0)
	}
	for _, code := range heldCodes {
		m.heldMachines.WithLabelValues(pool, code).Set(0)
	}
	for _, h := range held {
		m.heldMachines.WithLabelValues(pool, h.why.Code).Inc()
	}
}

// conditionSeries are the labels and the value of a condition's series.
type conditionSeries struct {
	kind, namespace, name, condition string
	value                            float64
}

// said sets what the objects on the desk were last said to be. What is not known has no series.
// Nearly always all is as it was.
func (m *Metrics) said(d *desk, said map[types.UID]any) {
	var now []conditionSeries
	put := func(o client.Object, all []metav1.Condition) {
		for _, c := range all {
			switch c.Status {
			case metav1.ConditionTrue:
				now = append(now, conditionSeries{kindOf(o), o.GetNamespace(), o.GetName(), c.Type, 1})
			case metav1.ConditionFalse:
				now = append(now, conditionSeries{kindOf(o), o.GetNamespace(), o.GetName(), c.Type, 0})
			case metav1.ConditionUnknown:
			}
		}
	}
	for _, w := range d.workloads {
		if st, ok := said[w.object.UID].(v1alpha1.WorkloadAutoscalerStatus); ok {
			put(w.object, st.Conditions)
		}
	}
	for _, p := range d.pools {
		if st, ok := said[p.object.UID].(v1alpha1.VMPoolStatus); ok {
			put(p.object, st.Conditions)
		}
	}
	for _, b := range d.books {
		if st, ok := said[b.object.UID].(v1alpha1.PriceBookStatus); ok {
			put(b.object, st.Conditions)
		}
	}
	if slices.Equal(now, m.conditionsNow) {
		return
	}
	m.conditionsNow = now
	m.conditions.Reset()
	for _, c := range now {
		m.conditions.WithLabelValues(c.kind, c.namespace, c.name, c.condition).Set(c.value)
	}
}

// showSizes sets what is recommended for the containers. What is not known, or no bound, has no
// series.
func (m *Metrics) showSizes(d *desk, s *loop.Step) {
	m.sizedCPU.Reset()
	m.sizedMemory.Reset()
	for _, w := range d.workloads {
		ws := workloadStep(s, w.name)
		if ws == nil || ws.Sizing == nil {
			continue
		}
		if done := s.Resized(ws); done != nil {
			m.resized(done.Applied)
		}
		for i := range ws.Sizing.Recommended {
			rec := &ws.Sizing.Recommended[i]
			for bound, of := range map[string]pricing.Resources{"target": rec.Target, "lower": rec.Lower, "upper": rec.Upper, "uncapped": rec.Uncapped} {
				if rec.Has(rightsize.CPU) && !rightsize.CPU.Unbounded(of) {
					m.sizedCPU.WithLabelValues(w.object.Namespace, w.object.Name, rec.Container, bound).Set(float64(of.CPU) / 1000)
				}
				if rec.Has(rightsize.Memory) && !rightsize.Memory.Unbounded(of) {
					m.sizedMemory.WithLabelValues(w.object.Namespace, w.object.Name, rec.Container, bound).Set(float64(of.Memory))
				}
			}
		}
	}
}

// resized counts a resize that was asked for.
func (m *Metrics) resized(applied bool) {
	if applied {
		m.resizes.WithLabelValues(resultDone).Inc()
	} else {
		m.resizes.WithLabelValues(resultFailed).Inc()
	}
}

// left sets what is left over.
func (m *Metrics) left(r *pve.Report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.orphans.Reset()
	for _, k := range orphanKinds {
		m.orphans.WithLabelValues(string(k))
	}
	for _, o := range r.Orphans {
		m.orphans.WithLabelValues(string(o.Kind)).Inc()
	}
}

// headroom shows how much of each headroom there is, and what it costs. What is not planned for in
// a step has no series.
func (m *Metrics) headroom(s *loop.Step) {
	if !planned(s) {
		return
	}
	m.roomPods.Reset()
	m.roomRate.Reset()
	for i := range s.Plan.Headroom {
		h := &s.Plan.Headroom[i]
		namespace, name := nodescaler.NamespaceOf(h.Name), h.Name[len(nodescaler.NamespaceOf(h.Name))+1:]
		for state, pods := range map[string]int{"wanted": h.Wanted, "ready": h.Ready, "coming": h.Coming} {
			m.roomPods.With(prometheus.Labels{"namespace": namespace, "name": name, "state": state}).Set(float64(pods))
		}
		m.roomRate.WithLabelValues(namespace, name, s.Observed.Cost.Unit).Set(h.Rate.Units())
	}
}

// unplaced counts the pods that have no place by code. A step that plans nothing leaves the counts
// as they were.
func (m *Metrics) unplaced(s *loop.Step) {
	if !planned(s) {
		return
	}
	m.noneUnplaced()
	for i := range s.Plan.Unplaced {
		if u := &s.Plan.Unplaced[i]; slices.Contains(nodescaler.UnplacedCodes(), u.Why.Code) {
			m.podsUnplaced.WithLabelValues(u.Why.Code).Add(float64(u.Count))
		} else {
			m.podsUnplaced.WithLabelValues(otherReason).Add(float64(u.Count))
		}
	}
}

// otherReason is the label of codes that are not among nodescaler.UnplacedCodes.
const otherReason = "Other"

func (m *Metrics) noneUnplaced() {
	for _, code := range append(nodescaler.UnplacedCodes(), otherReason) {
		m.podsUnplaced.WithLabelValues(code).Set(0)
	}
}
