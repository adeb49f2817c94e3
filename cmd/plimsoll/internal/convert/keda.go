package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
)

// KEDA's own defaults.
const (
	leastOfKEDA = 0
	mostOfKEDA  = 100
)

// fromKEDA converts a ScaledObject: its triggers of types prometheus, cpu, memory and cron, its
// fallback, and what it has while nothing calls for it.
func fromKEDA(m tree, _ Options) *v1alpha1.WorkloadAutoscalerSpec {
	s := m.at("spec")
	advanced := s.at("advanced")
	if modifiers := advanced.at("scalingModifiers"); modifiers.there() {
		modifiers.lose("a formula over the triggers is not carried over, and without it they would mean something else")
		return nil
	}
	spec := &v1alpha1.WorkloadAutoscalerSpec{
		ScaleTargetRef: target(s.at("scaleTargetRef"), "Deployment"),
		Mode:           v1alpha1.ModeRecommend,
		PolicySpec:     v1alpha1.PolicySpec{Policy: v1alpha1.PolicyHPA, HPA: &v1alpha1.HPA{}},
		MinReplicas:    new(int32(leastOfKEDA)),
		MaxReplicas:    mostOfKEDA,
		Behavior:       behavior(advanced.at("horizontalPodAutoscalerConfig").at("behavior")),
		Signals:        &v1alpha1.Signals{},
	}
	if low, ok := s.at("minReplicaCount").whole(); ok {
		*spec.MinReplicas = low
	}
	if most, ok := s.at("maxReplicaCount").whole(); ok {
		spec.MaxReplicas = most
	}
	s.at("minReplicaCount").becomes("spec.minReplicas")
	s.at("maxReplicaCount").becomes("spec.maxReplicas")
	advanced.at("horizontalPodAutoscalerConfig").at("behavior").becomes("spec.behavior")
	giveUp(m)
	annotate(m)
	for _, trigger := range s.at("triggers").items() {
		addTrigger(spec, trigger)
	}
	if len(spec.HPA.Metrics) == 0 {
		if s.at("triggers").there() {
			s = s.at("triggers")
		}
		s.lose("none could be carried over as a metric, so nothing was written: without one, CPU would be kept at 80 %%")
		return nil
	}
	if spec.Signals.Prometheus == nil {
		spec.Signals = nil
	} else {
		m.note("spec.signals.prometheus.url: Plimsoll asks %s once its administrator lists it in signals.allowedHosts; without the key it asks the Prometheus that all share", spec.Signals.Prometheus.URL)
	}
	rest(s, spec)
	for _, trigger := range s.at("triggers").items() {
		if trigger.at("type").text() == "cron" {
			addCron(spec, trigger)
		}
	}
	spec.Fallback = fallback(s.at("fallback"), spec)
	return spec
}

// rest reads how few replicas there are while no trigger is active, for which KEDA looks at them
// itself, beside its HPA, which then has at least one.
func rest(s tree, spec *v1alpha1.WorkloadAutoscalerSpec) {
	after, early := s.at("cooldownPeriod"), s.at("initialCooldownPeriod")
	fewest, idle := s.at("idleReplicaCount").whole()
	if idle && fewest >= *spec.MinReplicas {
		s.at("idleReplicaCount").fault(fmt.Sprintf("must be below minReplicaCount, which is %d", *spec.MinReplicas), fewest)
		return
	}
	if !idle && *spec.MinReplicas > 0 {
		for _, t := range []tree{after, early, s.at("pollingInterval")} {
			if t.skip(); t.there() {
				s.note("%s counts in KEDA only where there is a minReplicaCount of 0 or an idleReplicaCount", strings.TrimPrefix(t.path, "spec."))
			}
		}
		return
	}
	s.at("pollingInterval").lose("is how often KEDA looks whether to wake a workload; here runPeriod counts for everything, and is 15s")
	early.lose("a new workload is not held up: it may be idle once nothing has called for it for idle.after")
	if !slices.ContainsFunc(spec.HPA.Metrics, func(m v1alpha1.HPAMetric) bool { return m.Type == "External" }) {
		s.at("idleReplicaCount").lose("no trigger was carried over that can call for a workload without pods")
		atLeastOne(s.at("minReplicaCount"), spec)
		after.lose("is waited for before the last step, to 0 or idleReplicaCount, which there is not here")
		return
	}
	*spec.MinReplicas = max(*spec.MinReplicas, 1)
	spec.Idle = &v1alpha1.Idle{Replicas: fewest, After: "5m"}
	s.at("idleReplicaCount").becomes("spec.idle.replicas")
	if seconds, ok := after.whole(); ok {
		const most = 24 * 60 * 60
		held := min(max(seconds, 0), most)
		if held != seconds {
			after.lose("is written as %s, between 0s and 24h", pricing.Short(time.Duration(held)*time.Second))
		}
		spec.Idle.After = duration(time.Duration(held) * time.Second)
	}
}

// annotate carries over KEDA's annotations that pause.
func annotate(m tree) {
	const keda = "autoscaling.keda.sh/"
	said := m.at("metadata").at("annotations")
	pauses := func(key string) bool {
		t := said.at(keda + key)
		return choice(t, map[string]string{"": "", "false": "", "true": "true"}) != ""
	}
	all, in, out := pauses("paused"), pauses("paused-scale-in"), pauses("paused-scale-out")
	paused := map[string]string{}
	switch replicas := said.at(keda + "paused-replicas"); {
	case replicas.there():
		if n, ok := replicas.whole(); ok && n >= 0 {
			paused[v1alpha1.AnnotationPausedReplicas] = strconv.Itoa(int(n))
		} else if ok {
			replicas.fault("must be at least 0", n)
		}
	case all || in && out:
		paused[v1alpha1.AnnotationPaused] = "true"
	case in:
		paused[v1alpha1.AnnotationPaused] = v1alpha1.PauseDown
	case out:
		paused[v1alpha1.AnnotationPaused] = v1alpha1.PauseUp
	}
	if len(paused) > 0 {
		m.annotations = paused
		m.note("metadata.annotations: it is paused as the ScaledObject is; plimsoll resume ends that")
	}
	for _, key := range said.keys() {
		if name, ours := strings.CutPrefix(key, keda); ours && strings.HasPrefix(name, "paused") {
			continue
		}
		if strings.HasPrefix(key, keda) || strings.HasPrefix(key, "scaledobject.keda.sh/") {
			said.at(key).lose("is for KEDA, and has no counterpart")
		}
	}
}

// giveUp says of what is KEDA's alone why it is lost.
func giveUp(m tree) {
	s := m.at("spec")
	s.at("scaleTargetRef").at("envSourceContainerName").lose("environment variables of the workload are not read")
	advanced := s.at("advanced")
	if restore := advanced.at("restoreToOriginalReplicaCount"); yes(restore) {
		restore.lose("replicas stay as they are when a WorkloadAutoscaler is deleted")
	}
	advanced.at("horizontalPodAutoscalerConfig").at("name").lose("there is no HorizontalPodAutoscaler behind a WorkloadAutoscaler")
}

// addTrigger adds a trigger as a metric, and says why where it cannot.
func addTrigger(spec *v1alpha1.WorkloadAutoscalerSpec, t tree) {
	switch kind := t.at("type").needed(); kind {
	case "prometheus":
		addPrometheus(spec, t)
	case "cpu", "memory":
		addResource(spec, t, kind)
	case "cron": // no metric, but a schedule
	default:
		t.lose("there is nothing that reads what a trigger of type %s does; keep the workload in KEDA, or bring the metric into Prometheus", kind)
	}
}

// addResource adds what pods use of CPU or memory, or one container of each.
func addResource(spec *v1alpha1.WorkloadAutoscalerSpec, t tree, resource string) {
	settings := t.at("metadata")
	t.at("name").skip() // it names the metric in KEDA's formulas
	kind := t.at("metricType").text()
	if old := settings.at("type").text(); kind == "" {
		kind = old
	}
	metric := v1alpha1.HPAMetric{Type: "Resource", Name: resource}
	if container := settings.at("containerName"); container.there() {
		metric.Type, metric.Container = "ContainerResource", container.needed()
	}
	switch value := settings.at("value"); kind {
	case "AverageValue":
		metric.AverageValue = quantity(value)
	case "", "Utilization":
		if n, ok := value.whole(); ok {
			metric.AverageUtilization = &n
		}
	default:
		t.at("metricType").fault("must be Utilization or AverageValue for "+resource, kind)
	}
	if !settings.at("value").there() {
		settings.at("value").fault("must be there", "nothing")
	}
	for _, key := range []string{"averageUtilization", "averageValue"} {
		settings.at("value").becomes(fmt.Sprintf("spec.hpa.metrics[%d].%s", len(spec.HPA.Metrics), key))
	}
	spec.HPA.Metrics = append(spec.HPA.Metrics, metric)
}

// addPrometheus adds a query, and a metric that goes by it.
func addPrometheus(spec *v1alpha1.WorkloadAutoscalerSpec, t tree) {
	settings := t.at("metadata")
	address := settings.at("serverAddress").needed()
	switch {
	case spec.Signals.Prometheus == nil:
		spec.Signals.Prometheus = &v1alpha1.Prometheus{URL: strings.TrimSuffix(address, "/")}
	case spec.Signals.Prometheus.URL != strings.TrimSuffix(address, "/"):
		t.lose("asks another Prometheus, %s, than the triggers before it, and one autoscaler asks one", address)
		return
	}
	called := t.at("name").text()
	name := called
	for n := len(spec.Signals.Metrics); name == "" || named(spec, name) || signals.Reserved(name); n++ {
		name = fmt.Sprintf("trigger-%d", n)
	}
	if signals.Reserved(called) {
		t.note("%s.name: %s is a signal's name here, and the metric is called %s", t.path, called, name)
	}
	settings.at("metricName").skip() // KEDA no longer reads it
	metric := v1alpha1.HPAMetric{Type: "External", Name: name}
	threshold := quantity(settings.at("threshold"))
	if !settings.at("threshold").there() {
		settings.at("threshold").fault("must be there", "nothing")
	}
	switch kind := t.at("metricType").text(); kind {
	case "", "AverageValue":
		metric.AverageValue = threshold
	case "Value":
		metric.Value = threshold
	default:
		t.at("metricType").fault("must be AverageValue or Value for prometheus", kind)
	}
	for _, key := range []string{"averageValue", "value"} {
		settings.at("threshold").becomes(fmt.Sprintf("spec.hpa.metrics[%d].%s", len(spec.HPA.Metrics), key))
	}
	if activation := quantity(settings.at("activationThreshold")); activation != nil && *activation != "0" {
		metric.Activation = activation
	}
	spec.Signals.Metrics = append(spec.Signals.Metrics, v1alpha1.Series{Name: name, Query: query(settings)})
	spec.HPA.Metrics = append(spec.HPA.Metrics, metric)
	authenticate(spec.Signals.Prometheus, t)
	losePrometheus(t)
}

// query reads a trigger's query. KEDA takes an empty answer for 0 unless ignoreNullValues is false;
// here that is unknown, so the query itself says 0.
func query(settings tree) v1alpha1.Query {
	const longest = 4096 // characters that a query may have
	asked := settings.at("query").needed()
	nulls := settings.at("ignoreNullValues")
	if choice(nulls, map[string]string{"": "0", "true": "0", "false": ""}) == "" {
		return v1alpha1.Query(asked)
	}
	body := strings.TrimSpace(asked)
	if strings.Contains(body, "#") {
		body += "\n" // which ends a comment
	} else if saysZero.MatchString(body) {
		return v1alpha1.Query(asked)
	}
	// Behind a plain or, the 0 would be a second series beside one with labels.
	whole := "(" + body + ") or on() vector(0)"
	if utf8.RuneCountInString(whole) > longest {
		settings.note("%s: KEDA takes an answer without series for 0, here it is unknown: add \"or on() vector(0)\" to the query, which is too long for it, of at most %d characters", settings.at("query").path, longest)
		return v1alpha1.Query(asked)
	}
	return v1alpha1.Query(whole)
}

// saysZero is a query that never returns nothing. No operator binds less than its or.
var saysZero = regexp.MustCompile(`(?i)[\s)}\]]or\s+(?:on\s*\(\s*\)\s*)?vector\s*\(\s*0\s*\)$`)

// addCron adds a schedule for a trigger that asks for some replicas at some times.
func addCron(spec *v1alpha1.WorkloadAutoscalerSpec, t tree) {
	const most = 16 // schedules that a WorkloadAutoscaler may have
	in := t.at("metadata")
	zone, start, end := in.at("timezone").needed(), in.at("start").needed(), in.at("end").needed()
	replicas, ok := in.at("desiredReplicas").whole()
	if !in.at("desiredReplicas").there() {
		in.at("desiredReplicas").fault("must be there", "nothing")
	}
	if !ok {
		return
	}
	star := strings.NewReplacer("?", "*") // which mean the same to KEDA
	s := v1alpha1.Schedule{
		Name: t.at("name").text(), Start: v1alpha1.CronTime(star.Replace(start)), End: v1alpha1.CronTime(star.Replace(end)), TimeZone: zone,
	}
	taken := func(o v1alpha1.Schedule) bool { return o.Name == s.Name }
	if s.Name == "" || slices.ContainsFunc(spec.Schedules, taken) {
		s.Name = fmt.Sprintf("schedule-%d", len(spec.Schedules))
	}
	switch why := unreadable(s); {
	case why != "":
		t.lose("%s", why)
		return
	case len(spec.Schedules) == most || slices.ContainsFunc(spec.Schedules, taken):
		t.lose("is one of more than %d, or has a name that another has", most)
		return
	}
	if beginsAgain(s) {
		t.note("%s: begins several times before it ends: here it is open from the first time on, in KEDA from the last", t.path)
	}
	s.MinReplicas = new(within(in.at("desiredReplicas"), replicas, spec))
	spec.Schedules = append(spec.Schedules, s)
}

// unreadable says what keeps a schedule from being read, or nothing.
func unreadable(s v1alpha1.Schedule) string {
	start, err := podscaler.ParseCron(string(s.Start))
	if err != nil {
		return "start: " + err.Error()
	}
	end, err := podscaler.ParseCron(string(s.End))
	switch {
	case err != nil:
		return "end: " + err.Error()
	case start.Equal(end):
		return "start and end are the same, which leaves open when it is"
	}
	var zone pricing.Zone
	if err := zone.UnmarshalText([]byte(s.TimeZone)); err != nil {
		return "timezone: " + err.Error()
	}
	return ""
}

// beginsAgain reports whether a schedule's start comes again before its end does.
func beginsAgain(s v1alpha1.Schedule) bool {
	const years = 4 * 366 * 24 * time.Hour // with a 29 February
	start, _ := podscaler.ParseCron(string(s.Start))
	end, _ := podscaler.ParseCron(string(s.End))
	until := time.Date(2032, time.January, 1, 0, 0, 0, 0, time.UTC)
	at, came := start.Last(until, time.UTC)
	for came && until.Sub(at) < years {
		before, any := start.Last(at.Add(-1), time.UTC)
		if ended, ever := end.Last(at, time.UTC); any && (!ever || !ended.After(before)) {
			return true
		}
		at, came = before, any
	}
	return false
}

// within holds a number of replicas to the bounds, which would hold it in KEDA as well.
func within(t tree, replicas int32, spec *v1alpha1.WorkloadAutoscalerSpec) int32 {
	held := min(max(replicas, *spec.MinReplicas, 1), spec.MaxReplicas)
	if held != replicas {
		t.lose("is written as %d, between minReplicas, or 1, and maxReplicas", held)
	}
	return held
}

// fallback reads what is done when a metric fails. KEDA counts the failures of its HPA's runs.
func fallback(t tree, spec *v1alpha1.WorkloadAutoscalerSpec) *v1alpha1.Fallback {
	if !t.there() {
		return nil
	}
	failures, _ := t.at("failureThreshold").whole()
	replicas, _ := t.at("replicas").whole()
	f := &v1alpha1.Fallback{Behavior: choice(t.at("behavior"), map[string]string{
		"": "Static", "static": "Static", "currentReplicas": "Current",
		"currentReplicasIfHigher": "CurrentIfHigher", "currentReplicasIfLower": "CurrentIfLower",
	})}
	const run, least, most = 15 * time.Second, time.Minute, 24 * time.Hour
	after := min(max(time.Duration(failures)*run, least), most)
	if after != time.Duration(failures)*run {
		t.at("failureThreshold").lose("is written as fallback.after: %s, which may be from %s to %s", pricing.Short(after), pricing.Short(least), pricing.Short(most))
	}
	f.After = duration(after)
	if f.Behavior == "Current" {
		t.at("replicas").skip()
	} else {
		f.Replicas = new(within(t.at("replicas"), replicas, spec))
	}
	t.note("fallback: in KEDA it replaces one metric that fails; here it counts when the others say nothing, either")
	return f
}

func named(spec *v1alpha1.WorkloadAutoscalerSpec, name string) bool {
	for _, s := range spec.Signals.Metrics {
		if s.Name == name {
			return true
		}
	}
	return false
}

// losePrometheus gives up what a trigger has besides its query.
func losePrometheus(t tree) {
	settings := t.at("metadata")
	if unsafe := settings.at("unsafeSsl"); choice(unsafe, map[string]string{"": "", "true": "true", "false": ""}) != "" {
		unsafe.lose("a server's certificate is always looked at: put what it is signed with into ca.crt of the secret in signals.prometheus.secretName")
	}
	t.at("useCachedMetrics").lose("metrics are read once for each decision")
}
