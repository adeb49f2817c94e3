package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A WorkloadAutoscaler says how many pods a workload is to have: between which bounds, by which
// policy, for which response time and at what cost. It starts in mode Recommend, which changes
// nothing and says in its status what it would do.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=wla,categories=plimsoll
// +kubebuilder:printcolumn:name="Reference",type=string,JSONPath=`.spec.scaleTargetRef.name`,description="The workload that is scaled"
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`
// +kubebuilder:printcolumn:name="Min",type=integer,JSONPath=`.spec.minReplicas`
// +kubebuilder:printcolumn:name="Max",type=integer,JSONPath=`.spec.maxReplicas`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.currentReplicas`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.status.desiredReplicas`
// +kubebuilder:printcolumn:name="P",type=string,JSONPath=`.spec.slo.p`,description="The quantile of response times that the objective is for"
// +kubebuilder:printcolumn:name="Latency",type=string,JSONPath=`.status.slo.observed`,description="That quantile as it was measured"
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.slo.target`,description="That quantile as it should be"
// +kubebuilder:printcolumn:name="Cost/h",type=string,JSONPath=`.status.cost.perHour`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.scaleTargetRef.kind`,priority=1
// +kubebuilder:printcolumn:name="Proposed",type=integer,JSONPath=`.status.recommendedReplicas`,priority=1,description="What the policy proposed, before bounds and behavior"
// +kubebuilder:printcolumn:name="Good",type=string,JSONPath=`.status.slo.goodFraction`,priority=1,description="The share of requests within the objective's target"
// +kubebuilder:printcolumn:name="Last",type=string,JSONPath=`.status.lastDecision.reasons[0].code`,priority=1,description="The first reason of the last decision"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadAutoscaler struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is wanted.
	// +required
	Spec WorkloadAutoscalerSpec `json:"spec"`
	// What was seen and decided.
	// +optional
	Status WorkloadAutoscalerStatus `json:"status,omitempty"`
}

// WorkloadAutoscalerList is a list of WorkloadAutoscalers.
//
// +kubebuilder:object:root=true
type WorkloadAutoscalerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WorkloadAutoscaler `json:"items"`
}

// WorkloadAutoscalerSpec is what is wanted of a workload.
//
// +kubebuilder:validation:XValidation:rule="self.maxReplicas >= self.minReplicas",fieldPath=".maxReplicas",messageExpression="'must be at least minReplicas, which is %d, was %d'.format([self.minReplicas, self.maxReplicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.schedules) || self.schedules.all(s, (!has(s.minReplicas) || s.minReplicas >= self.minReplicas && s.minReplicas <= self.maxReplicas) && (!has(s.maxReplicas) || s.maxReplicas <= self.maxReplicas && s.maxReplicas >= self.minReplicas))",fieldPath=".schedules",messageExpression="'must lie within minReplicas and maxReplicas, which are %d and %d, was otherwise in %s'.format([self.minReplicas, self.maxReplicas, self.schedules.filter(s, has(s.minReplicas) && (s.minReplicas < self.minReplicas || s.minReplicas > self.maxReplicas) || has(s.maxReplicas) && (s.maxReplicas > self.maxReplicas || s.maxReplicas < self.minReplicas)).map(s, s.name)])"
// +kubebuilder:validation:XValidation:rule="!has(self.fallback) || !has(self.fallback.replicas) || self.fallback.replicas >= self.minReplicas && self.fallback.replicas <= self.maxReplicas",fieldPath=".fallback.replicas",messageExpression="'must be from minReplicas to maxReplicas, which are %d and %d, was %d'.format([self.minReplicas, self.maxReplicas, self.fallback.replicas])"
// +kubebuilder:validation:XValidation:rule="self.policy != 'SLOCost' || has(self.slo)",fieldPath=".policy",message="SLOCost must have an objective in slo, was without"
// +kubebuilder:validation:XValidation:rule="self.policy != 'SLOCost' || has(self.cost)",fieldPath=".policy",message="SLOCost must have a target in cost, was without"
// +kubebuilder:validation:XValidation:rule="self.policy != 'SLOCost' || self.minReplicas != 0",fieldPath=".minReplicas",message="must be at least 1 with policy SLOCost, which multiplies what is there, was 0"
// +kubebuilder:validation:XValidation:rule="self.policy != 'SLOCost' || has(self.signals) && (has(self.signals.scrape) && (has(self.signals.scrape.latency) || self.signals.preset != 'None') || has(self.signals.queries) && has(self.signals.queries.latency) || self.signals.preset != 'None')",fieldPath=".policy",message="SLOCost must have response times to go by, was without signals.preset, signals.queries.latency and signals.scrape.latency"
// +kubebuilder:validation:XValidation:rule="self.policy != 'Joint' || has(self.slo)",fieldPath=".policy",message="Joint, which is meant where no policy is named, must have an objective in slo, was without"
// +kubebuilder:validation:XValidation:rule="self.policy != 'Joint' || self.minReplicas != 0",fieldPath=".minReplicas",message="must be at least 1 with policy Joint, which learns from what is there, was 0"
// +kubebuilder:validation:XValidation:rule="self.policy != 'Joint' || has(self.signals) && (has(self.signals.scrape) && (has(self.signals.scrape.latency) || self.signals.preset != 'None') || has(self.signals.queries) && has(self.signals.queries.latency) || self.signals.preset != 'None')",fieldPath=".policy",message="Joint must have response times to go by, was without signals.preset, signals.queries.latency and signals.scrape.latency"
// +kubebuilder:validation:XValidation:rule="self.policy != 'HPA' || self.minReplicas != 0 || has(self.hpa) && has(self.hpa.metrics) && self.hpa.metrics.exists(m, m.type in ['Object', 'External'])",fieldPath=".minReplicas",message="must be at least 1 without an Object or External metric, for nothing else can be measured at 0, was 0"
// +kubebuilder:validation:XValidation:rule="!has(self.hpa) || !has(self.hpa.metrics) || self.hpa.metrics.all(m, m.type in ['Resource', 'ContainerResource'] || has(self.signals) && has(self.signals.metrics) && self.signals.metrics.exists(s, s.name == m.name))",fieldPath=".hpa.metrics",messageExpression="'must each name a resource, with type Resource or ContainerResource, or a series in signals.metrics, was %s'.format(self.hpa.metrics.filter(m, !(m.type in ['Resource', 'ContainerResource']) && !(has(self.signals) && has(self.signals.metrics) && self.signals.metrics.exists(s, s.name == m.name))).map(m, m.name))"
// +kubebuilder:validation:XValidation:rule="!has(self.idle) || self.policy == 'HPA' && has(self.hpa) && has(self.hpa.metrics) && self.hpa.metrics.exists(m, m.type in ['Object', 'External'])",fieldPath=".idle",message="must be omitted without policy HPA and a metric of type Object or External, which alone can call for a workload, was there"
// +kubebuilder:validation:XValidation:rule="!has(self.idle) || (has(self.idle.replicas) ? self.idle.replicas : 0) < self.minReplicas",fieldPath=".idle.replicas",messageExpression="'must be below minReplicas, which is %d, was %d'.format([self.minReplicas, has(self.idle.replicas) ? self.idle.replicas : 0])"
// +kubebuilder:validation:XValidation:rule="self.policy != 'FastSlow' || self.minReplicas != 0",fieldPath=".minReplicas",message="must be at least 1 with policy FastSlow, which multiplies what is there, was 0"
// +kubebuilder:validation:XValidation:rule="!has(self.fastSlow) || !has(self.fastSlow.metric) || has(self.signals) && has(self.signals.metrics) && self.signals.metrics.exists(s, s.name == self.fastSlow.metric)",fieldPath=".fastSlow.metric",messageExpression="'must name a series in signals.metrics, was ' + self.fastSlow.metric"
// +kubebuilder:validation:XValidation:rule="self.policy != 'Watermark' || self.minReplicas != 0",fieldPath=".minReplicas",message="must be at least 1 with policy Watermark, which multiplies what is there, was 0"
// +kubebuilder:validation:XValidation:rule="!has(self.watermark) || !has(self.watermark.multiple) || self.minReplicas % self.watermark.multiple == 0",fieldPath=".minReplicas",messageExpression="'must be a multiple of watermark.multiple, which is %d, was %d'.format([self.watermark.multiple, self.minReplicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.watermark) || !has(self.watermark.multiple) || self.maxReplicas % self.watermark.multiple == 0",fieldPath=".maxReplicas",messageExpression="'must be a multiple of watermark.multiple, which is %d, was %d'.format([self.watermark.multiple, self.maxReplicas])"
// +kubebuilder:validation:XValidation:rule="!has(self.watermark) || !has(self.watermark.metrics) || self.watermark.metrics.all(m, m.type in ['Resource', 'ContainerResource'] || has(self.signals) && has(self.signals.metrics) && self.signals.metrics.exists(s, s.name == m.name))",fieldPath=".watermark.metrics",messageExpression="'must each name a resource, with type Resource or ContainerResource, or a series in signals.metrics, was %s'.format(self.watermark.metrics.filter(m, !(m.type in ['Resource', 'ContainerResource']) && !(has(self.signals) && has(self.signals.metrics) && self.signals.metrics.exists(s, s.name == m.name))).map(m, m.name))"
// +kubebuilder:validation:XValidation:rule="self.policy != 'Predictive' || self.minReplicas != 0",fieldPath=".minReplicas",message="must be at least 1 with policy Predictive, which goes by the pods' CPU where nothing else is known, was 0"
// +kubebuilder:validation:XValidation:rule="self.policy != 'Predictive' || has(self.signals) && (has(self.signals.scrape) && (has(self.signals.scrape.requests) || has(self.signals.scrape.latency) || self.signals.preset != 'None') || has(self.signals.queries) && has(self.signals.queries.arrivals) || self.signals.preset != 'None')",fieldPath=".policy",message="Predictive must have arrivals to go by, was without signals.preset, signals.queries.arrivals, signals.scrape.requests and signals.scrape.latency"
type WorkloadAutoscalerSpec struct {
	// The workload that is scaled, in the same namespace: anything that has a scale, such as a
	// Deployment, a StatefulSet or an Argo Rollout. It cannot be changed; make another
	// WorkloadAutoscaler for another workload.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",messageExpression="'must stay ' + oldSelf.kind + ' ' + oldSelf.name + ' of ' + oldSelf.apiVersion + ': delete the object and create it for ' + self.kind + ' ' + self.name + ' of ' + self.apiVersion"
	ScaleTargetRef ScaleTargetRef `json:"scaleTargetRef"`

	// Recommend says in the status what would be done, and does nothing. Approve proposes it as
	// ScalingProposals, and does what is approved. Active does it. Paused neither decides nor does
	// anything.
	// +optional
	// +kubebuilder:default=Recommend
	Mode Mode `json:"mode,omitempty"`

	// What mode Approve does without asking.
	// +optional
	Approval *WorkloadApproval `json:"approval,omitempty"`

	PolicySpec `json:",inline"`

	// The time between two decisions, from 5s to 10m.
	// +optional
	// +kubebuilder:default="15s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('5s') && duration(self) <= duration('10m')",message="must be from 5s to 10m"
	RunPeriod Duration `json:"runPeriod,omitempty"`

	// The time after a change of replicas in which no further one is made, at most 24h. To steady
	// each direction by itself, use behavior.
	// +optional
	// +kubebuilder:default="0s"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('24h')",message="must be at most 24h"
	StabilizationWindow Duration `json:"stabilizationWindow,omitempty"`

	// The fewest replicas. 0 needs policy HPA with a metric of type Object or External, for nothing
	// else can be measured of a workload without pods.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// The most replicas.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxReplicas int32 `json:"maxReplicas"`

	// The objective for response times. For example {p: 99th, target: 300ms, window: 20m} wants 99
	// of 100 requests of the last 20 minutes answered within 300 ms.
	// +optional
	SLO *SLO `json:"slo,omitempty"`

	// The target for what the machines cost, always with its period. For example
	// {target: 40, per: 30m}.
	// +optional
	Cost *CostTarget `json:"cost,omitempty"`

	// Where response times, rates and further series are measured. What pods use of CPU, memory and
	// other resources needs no entry here.
	// +optional
	Signals *Signals `json:"signals,omitempty"`

	// How fast replicas may change, and how steadily, in the shape and with the meaning and
	// defaults of a HorizontalPodAutoscaler's behavior. By default policy HPA does as a
	// HorizontalPodAutoscaler without one, and the other policies are not limited by it.
	// +optional
	Behavior *Behavior `json:"behavior,omitempty"`
	// Windows of the day, the week or the year in which other bounds hold, within minReplicas and
	// maxReplicas.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Schedules []Schedule `json:"schedules,omitempty"`
	// What is done when the policy has no answer for long. By default the replicas stay as they
	// are.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`
	// How few replicas there are while nothing calls for the workload, with policy HPA and a
	// metric of type Object or External. By default there are always minReplicas.
	// +optional
	Idle *Idle `json:"idle,omitempty"`
	// When a pod counts, and how many must be ready before anything is changed.
	// +optional
	Readiness *Readiness `json:"readiness,omitempty"`
	// What is taken for an outage: most requests are gone at once, and of the rest more fail; or
	// they come, and 25 points more of each hundred fail than ever. So are requests that end no
	// more, where those in flight are not measured. Nothing is shrunk by that for a while. It needs
	// arrivals and errors among the signals.
	// +optional
	Upstream *Upstream `json:"upstream,omitempty"`
	// What each container should request, from what it was seen to use. With an empty block it is
	// said in the status, and nothing else is done. By default it is not looked at.
	// +optional
	Rightsize *Rightsize `json:"rightsize,omitempty"`
	// The receivers of notifications about the workload, besides those of all notifications.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Notifications []NotificationRef `json:"notifications,omitempty"`
}

// ScaleTargetRef names a workload.
type ScaleTargetRef struct {
	// The group and version of the workload's kind, such as apps/v1.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9]+((alpha|beta)[0-9]+)?$')`,message="must be a group and a version: apps/v1"
	APIVersion string `json:"apiVersion"`
	// The workload's kind, such as Deployment.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Z][A-Za-z0-9]*$')`,message="must be a kind: Deployment"
	Kind string `json:"kind"`
	// The workload's name.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')`,message="must be the name of an object: lower-case letters, digits, - and ., beginning and ending with a letter or digit"
	Name string `json:"name"`
}

// Mode is how far decisions go.
//
// +kubebuilder:validation:Enum=Recommend;Approve;Active;Paused
type Mode string

// The modes of a WorkloadAutoscaler.
const (
	ModeRecommend Mode = "Recommend" // decide, say it in the status, do nothing
	ModeApprove   Mode = "Approve"   // decide, ask, and do what is approved
	ModeActive    Mode = "Active"    // decide and do it
	ModePaused    Mode = "Paused"    // do nothing and decide nothing
)

// SLO is an objective for response times.
type SLO struct {
	// The quantile of response times: 99th, 99.9th, p95 or "0.95".
	// +required
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="self.matches('^(p(0*[1-9][0-9]?([.][0-9]+)?|0+[.]0*[1-9][0-9]*)|(0*[1-9][0-9]?([.][0-9]+)?|0+[.]0*[1-9][0-9]*)(st|nd|rd|th)|0[.]0*[1-9][0-9]*)$')",message="must be a quantile above 0th and below 100th, written as 99th, 99.9th, p95 or 0.95"
	P string `json:"p"`
	// What that quantile should be at most, such as 300ms.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="must be above 0s"
	Target Duration `json:"target"`
	// The stretch of time over which it is measured, such as 5m; at most 24h. Too short a window
	// holds too few requests for a high quantile.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be above 0s and at most 24h"
	Window Duration `json:"window"`
}

// CostTarget is a target for what the machines cost.
type CostTarget struct {
	// How much, in the price book's currency: 40 or "12.50".
	// +required
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	Target Money `json:"target"`
	// In what time, such as 30m or 1h.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="must be above 0s"
	Per Duration `json:"per"`
	// Which machines count: joined ones are nodes already, ordered counts those on their way too,
	// and predicted also those that pending replicas will still need.
	// +optional
	// +kubebuilder:default=predicted
	// +kubebuilder:validation:Enum=joined;ordered;predicted
	Count string `json:"count,omitempty"`
	// How the cost is compared with the target: rate applies the present rate to the whole period,
	// projected adds what was spent in this period and the present rate for the rest of it.
	// +optional
	// +kubebuilder:default=rate
	// +kubebuilder:validation:Enum=rate;projected
	Measure string `json:"measure,omitempty"`
}

// HPA is the settings of policy HPA.
type HPA struct {
	// What is looked at; of several metrics, the one that wants most replicas counts. Default: CPU
	// at 80 % of the request.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metrics []HPAMetric `json:"metrics,omitempty"`
	// How far the ratio of a metric to its target may be from 1 with nothing done; default: "0.1".
	// The tolerances in behavior go over it.
	// +optional
	Tolerance *Ratio `json:"tolerance,omitempty"`
	// How long after a pod's start its CPU counts only if the pod was ready throughout the sample;
	// default: readiness.cpuInitialization.
	// +optional
	CPUInitializationPeriod *Duration `json:"cpuInitializationPeriod,omitempty"`
	// How long after a pod's start a change of readiness is still part of starting; default:
	// readiness.initialDelay.
	// +optional
	InitialReadinessDelay *Duration `json:"initialReadinessDelay,omitempty"`
}

// HPAMetric is a metric with its one target.
//
// +kubebuilder:validation:XValidation:rule="(has(self.averageUtilization) ? 1 : 0) + (has(self.averageValue) ? 1 : 0) + (has(self.value) ? 1 : 0) == 1",messageExpression="'must have one target, was ' + (!has(self.averageUtilization) && !has(self.averageValue) && !has(self.value) ? 'without' : 'several') + ' for ' + self.name"
// +kubebuilder:validation:XValidation:rule="!has(self.averageUtilization) || self.type in ['Resource', 'ContainerResource']",fieldPath=".averageUtilization",messageExpression="'may be there only with type Resource or ContainerResource, was ' + self.type"
// +kubebuilder:validation:XValidation:rule="!has(self.activation) || self.type in ['Object', 'External']",fieldPath=".activation",messageExpression="'may be there only with type Object or External, which there are without pods, was ' + self.type"
// +kubebuilder:validation:XValidation:rule="!has(self.value) || self.type in ['Object', 'External']",fieldPath=".value",messageExpression="'may be there only with type Object or External, was ' + self.type"
// +kubebuilder:validation:XValidation:rule="!(self.type in ['Resource', 'ContainerResource']) || self.name.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",fieldPath=".name",messageExpression="'must be the name of a resource, such as cpu or memory, with type ' + self.type + ', was ' + self.name"
// +kubebuilder:validation:XValidation:rule="has(self.container) == (self.type == 'ContainerResource')",fieldPath=".container",messageExpression="'must be there with type ContainerResource and no other, was ' + (has(self.container) ? self.container + ' with type ' + self.type : 'absent')"
type HPAMetric struct {
	// Resource is what each pod uses of a resource, and ContainerResource what one container of it
	// does. The others are series of signals.metrics: Pods has a value for each pod, Object and
	// External have one for the whole.
	// +required
	// +kubebuilder:validation:Enum=Resource;ContainerResource;Pods;Object;External
	Type string `json:"type"`
	// The resource, cpu, memory or another that the cluster's metrics API serves, for Resource and
	// ContainerResource; and the name of a series in signals.metrics for all others.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// The container, for type ContainerResource.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="must be the name of a container: lower-case letters, digits and -, neither end a -"
	Container string `json:"container,omitempty"`
	// The target in percent of what is requested, for types Resource and ContainerResource: 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	AverageUtilization *int32 `json:"averageUtilization,omitempty"`
	// The target for each pod, for all types: 500m, 100.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	AverageValue *Quantity `json:"averageValue,omitempty"`
	// The target for the whole, for types Object and External: 2k.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	Value *Quantity `json:"value,omitempty"`
	// What the whole must be above to call for a workload that is idle, for types Object and
	// External. Default: 0.
	// +optional
	Activation *Quantity `json:"activation,omitempty"`
}

// FastSlow is the settings of policy FastSlow, which grows at once to what the pods' use needs, and
// takes a pod away after each long wait.
//
// +kubebuilder:validation:XValidation:rule="!has(self.metric) || has(self.target)",fieldPath=".target",messageExpression="'must be there for a metric other than CPU, was without for ' + self.metric"
type FastSlow struct {
	// A series of signals.metrics that is looked at, by name; default: the pods' CPU.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Metric string `json:"metric,omitempty"`
	// What a pod is to use: of the CPU in percent of its request, of a series in its own unit.
	// Default: 60.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	Target *Quantity `json:"target,omitempty"`
	// How far from the target the use may be with nothing done, as a part of it; below 1. Default:
	// "0.2".
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self == 0 : string(self).matches('^0+([.][0-9]+)?$')",message="must be below 1"
	Tolerance *Ratio `json:"tolerance,omitempty"`
	// How many replicas may be added at a time for each that there is. Default: 9, which makes ten
	// of one.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+$')",message="must be above 0"
	ScaleUpFactor *Ratio `json:"scaleUpFactor,omitempty"`
	// How many replicas are taken away at a time. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	DownStep *int32 `json:"downStep,omitempty"`
	// How long after a shrinking, and after all replicas may have been needed, none is taken away.
	// Default: 9m.
	// +optional
	DownWindow *Duration `json:"downWindow,omitempty"`
}

// Joint is the settings of policy Joint, which learns how much load holds the objective, sizes for
// the load to come, and fills what is paid for.
type Joint struct {
	// The part of the objective that response times are kept below it by; below 1. It is
	// 0 while the machines cost more than their target. Default: "0.04".
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self == 0 : string(self).matches('^0+([.][0-9]+)?$')",message="must be below 1"
	Headroom *Ratio `json:"headroom,omitempty"`
	// How sure it is to be that the load stays below what is sized for by the time that a replica
	// or a machine comes, above 0 and below 1. Default: "0.75".
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string && string(self).matches('^0+[.]0*[1-9][0-9]*$')",message="must be above 0 and below 1, in quotes, such as \"0.75\""
	Certainty *Ratio `json:"certainty,omitempty"`
	// How long replicas are kept after they were last needed. Omitted it is learned: 90s, and up to
	// 30m where those that were given up are needed again.
	// +optional
	Keep *Duration `json:"keep,omitempty"`
	// Asks for replicas in room that is paid for and empty. Default: true.
	// +optional
	Fill *bool `json:"fill,omitempty"`
}

// SLOCost is the settings of policy SLOCost, which multiplies the replicas by a weighted mean of
// two ratios: the response time to its objective, and the target cost to the present one.
type SLOCost struct {
	// The weight of the response time, above 0 and below 1; the cost has the rest. Default: "0.5".
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string && string(self).matches('^0+[.]0*[1-9][0-9]*$')",message="must be above 0 and below 1, in quotes, such as \"0.5\""
	RTWeight *Ratio `json:"rtWeight,omitempty"`
	// What the cost target is. With Cap, a cost below it counts as one on it; with Symmetric, it
	// grows the workload, as the formula was published.
	// +optional
	// +kubebuilder:default=Cap
	// +kubebuilder:validation:Enum=Cap;Symmetric
	Role string `json:"role,omitempty"`
	// Does nothing while replicas are not ready yet or machines are on their way.
	// +optional
	Wait bool `json:"wait,omitempty"`
	// Leaves the replicas alone while the multiplier is this close to 1; below 1, such as "0.05".
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self == 0 : string(self).matches('^0+([.][0-9]+)?$')",message="must be below 1"
	Tolerance *Ratio `json:"tolerance,omitempty"`
}

// Watermark is the settings of policy Watermark, which grows above a high mark and shrinks below a
// low one, in limited steps, and does nothing between them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.metrics) || !has(self.high) && !has(self.low)",fieldPath=".metrics",message="must be omitted with high or low, which are marks of the CPU"
// +kubebuilder:validation:XValidation:rule="!has(self.high) || !has(self.low) || quantity(string(self.high)).isGreaterThan(quantity(string(self.low)))",fieldPath=".high",messageExpression="'must be above low, which is ' + string(self.low) + ', was ' + string(self.high)"
type Watermark struct {
	// What is held against the marks: Average is what a pod carries in the mean, Absolute is the
	// whole, such as a latency or the length of a queue.
	// +optional
	// +kubebuilder:default=Average
	// +kubebuilder:validation:Enum=Average;Absolute
	Algorithm string `json:"algorithm,omitempty"`
	// The mark of the pods' CPU above which the workload grows: 1200m. With high and low, one is
	// enough. Without both and without metrics they are 80 and 40 % of the request.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	High *Quantity `json:"high,omitempty"`
	// The mark of the pods' CPU below which the workload shrinks: 400m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	Low *Quantity `json:"low,omitempty"`
	// What is looked at in place of the CPU alone; of several metrics, the one that wants most
	// replicas counts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Metrics []WatermarkMetric `json:"metrics,omitempty"`
	// How far beyond a mark the load may be with nothing done, as a part of it; below 1. Default:
	// "0.01". The tolerances in behavior go over it.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self == 0 : string(self).matches('^0+([.][0-9]+)?$')",message="must be below 1"
	Tolerance *Ratio `json:"tolerance,omitempty"`
	// How far one step up may go, in percent of the replicas, and one replica in any case. 0 turns
	// growing off. Default: 50.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	UpLimitPercent *int32 `json:"upLimitPercent,omitempty"`
	// How far one step down may go, in percent of the replicas, and one replica in any case. 0
	// turns shrinking off. Default: 20.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	DownLimitPercent *int32 `json:"downLimitPercent,omitempty"`
	// How long after the last change, whichever way it went, there is no further one. Default: 1m
	// up and 5m down.
	// +optional
	Cooldown *ByDirection `json:"cooldown,omitempty"`
	// How long the load must have been above the high mark, or below the low one. Default: 0s.
	// +optional
	Delay *ByDirection `json:"delay,omitempty"`
	// What the replicas are a multiple of; minReplicas and maxReplicas must be, too. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Multiple int32 `json:"multiple,omitempty"`
	// The mark that a load between both is brought nearer to, by one multiple a step: High, which
	// saves pods, or Low, which leaves each less to do.
	// +optional
	// +kubebuilder:default=None
	// +kubebuilder:validation:Enum=None;High;Low
	ConvergeTo string `json:"convergeTo,omitempty"`
	// Leaves as many replicas as carry the load below the high mark, so that no shrinking is taken
	// back. Default: true.
	// +optional
	AntiOscillation *bool `json:"antiOscillation,omitempty"`
	// Takes a load of 0 for one. By default nothing is done at 0, which is what a broken
	// measurement looks like, too.
	// +optional
	TolerateZero bool `json:"tolerateZero,omitempty"`
	// How long after a pod's start its samples count only if the pod was ready throughout them;
	// default: readiness.cpuInitialization.
	// +optional
	CPUInitializationPeriod *Duration `json:"cpuInitializationPeriod,omitempty"`
	// How long after a pod's start a change of readiness is still part of starting; default:
	// readiness.initialDelay.
	// +optional
	InitialReadinessDelay *Duration `json:"initialReadinessDelay,omitempty"`
}

// WatermarkMetric is a metric with its marks, of which one is enough.
//
// +kubebuilder:validation:XValidation:rule="has(self.high) || has(self.low)",messageExpression="'must have a high or a low mark, was without for ' + self.name"
// +kubebuilder:validation:XValidation:rule="!has(self.high) || !has(self.low) || quantity(string(self.high)).isGreaterThan(quantity(string(self.low)))",fieldPath=".high",messageExpression="'must be above low, which is ' + string(self.low) + ', was ' + string(self.high)"
// +kubebuilder:validation:XValidation:rule="!(self.type in ['Resource', 'ContainerResource']) || self.name.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$')",fieldPath=".name",messageExpression="'must be the name of a resource, such as cpu or memory, with type ' + self.type + ', was ' + self.name"
// +kubebuilder:validation:XValidation:rule="has(self.container) == (self.type == 'ContainerResource')",fieldPath=".container",messageExpression="'must be there with type ContainerResource and no other, was ' + (has(self.container) ? self.container + ' with type ' + self.type : 'absent')"
type WatermarkMetric struct {
	// Resource is what each pod uses of a resource, and ContainerResource what one container of it
	// does. The others are series of signals.metrics: Pods has a value for each pod, Object and
	// External have one for the whole.
	// +required
	// +kubebuilder:validation:Enum=Resource;ContainerResource;Pods;Object;External
	Type string `json:"type"`
	// The resource, cpu, memory or another that the cluster's metrics API serves, for Resource and
	// ContainerResource; and the name of a series in signals.metrics for all others.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// The container, for type ContainerResource.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,message="must be the name of a container: lower-case letters, digits and -, neither end a -"
	Container string `json:"container,omitempty"`
	// The mark above which the workload grows.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	High *Quantity `json:"high,omitempty"`
	// The mark below which it shrinks.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	Low *Quantity `json:"low,omitempty"`
}

// ByDirection is a time for growing and one for shrinking.
type ByDirection struct {
	// For growing.
	// +optional
	Up *Duration `json:"up,omitempty"`
	// For shrinking.
	// +optional
	Down *Duration `json:"down,omitempty"`
}

// Behavior limits and steadies changes of replicas.
type Behavior struct {
	// On the way up. Default: no window, and the larger of 4 pods and 100 % in 15 s.
	// +optional
	ScaleUp *ScalingRules `json:"scaleUp,omitempty"`
	// On the way down. Default: a window of 300 s, and 100 % in 15 s.
	// +optional
	ScaleDown *ScalingRules `json:"scaleDown,omitempty"`
}

// ScalingRules are the limits in one direction. What is omitted has the direction's default.
//
// +kubebuilder:validation:XValidation:rule="!has(self.policies) || self.policies.size() > 0 || has(self.selectPolicy) && self.selectPolicy == 'Disabled'",fieldPath=".policies",message="must name at least one policy, unless selectPolicy is Disabled, was empty"
type ScalingRules struct {
	// How far back recommendations are looked at: the lowest of them counts on the way up, the
	// highest on the way down.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	StabilizationWindowSeconds *int32 `json:"stabilizationWindowSeconds,omitempty"`
	// Which of several policies counts: Max the one that allows the largest change, Min the
	// smallest. Disabled allows no change in this direction.
	// +optional
	// +kubebuilder:validation:Enum=Max;Min;Disabled
	SelectPolicy *string `json:"selectPolicy,omitempty"`
	// How much replicas may change in how long.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Policies []ScalingPolicy `json:"policies,omitempty"`
	// How far a metric may be from its target in this direction with nothing done, over the
	// policy's own: "0.05".
	// +optional
	Tolerance *Ratio `json:"tolerance,omitempty"`
}

// ScalingPolicy allows a change of so much in each period.
type ScalingPolicy struct {
	// Pods or Percent of the replicas.
	// +required
	// +kubebuilder:validation:Enum=Pods;Percent
	Type string `json:"type"`
	// How many of them.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Value int32 `json:"value"`
	// In how many seconds, up to 1800.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1800
	PeriodSeconds int32 `json:"periodSeconds"`
}

// WorkloadAutoscalerStatus is what was seen of a workload, and decided.
type WorkloadAutoscalerStatus struct {
	// The generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// The replicas that Plimsoll set.
	// +optional
	CurrentReplicas *int32 `json:"currentReplicas,omitempty"`
	// How many of its pods are ready.
	// +optional
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`
	// What the policy proposed at its last run, before bounds and behavior.
	// +optional
	RecommendedReplicas *int32 `json:"recommendedReplicas,omitempty"`
	// The replicas that the workload should have. In mode Recommend they are not set.
	// +optional
	DesiredReplicas *int32 `json:"desiredReplicas,omitempty"`
	// The policy that decides.
	// +optional
	ActivePolicy Policy `json:"activePolicy,omitempty"`
	// When replicas were last changed.
	// +optional
	LastScaleTime *metav1.Time `json:"lastScaleTime,omitempty"`
	// The response times as they were measured.
	// +optional
	SLO *SLOStatus `json:"slo,omitempty"`
	// What the machines cost.
	// +optional
	Cost *CostStatus `json:"cost,omitempty"`
	// The last decision that changed something or would have, with its reasons.
	// +optional
	LastDecision *ScalingDecision `json:"lastDecision,omitempty"`
	// What the containers should request, where spec.rightsize asks for it.
	// +optional
	Rightsize *RightsizeStatus `json:"rightsize,omitempty"`
	// What holds of the object: Ready, ScalingActive, AbleToScale, ScalingLimited, ScaledToZero,
	// MetricsHealthy, Conflicted, Paused, SLOAtRisk, ErrorBudgetBurning, BudgetExceeded,
	// CapacityPending, CapacityHeld, CapacityAhead, CostSourceMismatch, Fallback and
	// RegistrationMismatch.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// SLOStatus is an objective as it was measured. What could not be measured is omitted.
type SLOStatus struct {
	// The objective's quantile of response times over its window: 212ms.
	// +optional
	Observed string `json:"observed,omitempty"`
	// The share of requests that were answered within the target: "0.994".
	// +optional
	GoodFraction string `json:"goodFraction,omitempty"`
	// What is spent of the requests that the objective lets be late: with p 99th, of one in a
	// hundred.
	// +optional
	ErrorBudget *ErrorBudget `json:"errorBudget,omitempty"`
	// Requests for each second: "41.7".
	// +optional
	ArrivalsPerSecond string `json:"arrivalsPerSecond,omitempty"`
}

// ErrorBudget is what is spent of the requests that an objective lets be late in 30 days. The time
// before it was counted passes for as busy and without a late request.
type ErrorBudget struct {
	// Since when requests have been counted: since the process that decides began, or the objective
	// changed.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
	// The share of them that is left: "0.83". Below 0 more were late than may be.
	// +optional
	Left string `json:"left,omitempty"`
	// How fast it was spent.
	// +optional
	// +listType=atomic
	BurnRates []BurnRate `json:"burnRates,omitempty"`
}

// BurnRate is how fast an error budget was spent over a window.
type BurnRate struct {
	// Over which window: 5m, 30m, 1h, 6h or 72h.
	// +optional
	Window string `json:"window,omitempty"`
	// How many times as many requests were late as may be: "2.4". At 1 the budget is spent just at
	// the end of 30 days.
	// +optional
	Rate string `json:"rate,omitempty"`
}

// CostStatus is what the machines cost, in the price book's currency.
type CostStatus struct {
	// The price book's currency.
	// +optional
	Currency string `json:"currency,omitempty"`
	// The machines that the target counts, for an hour at the present rate: "40".
	// +optional
	PerHour string `json:"perHour,omitempty"`
	// The same over the target's period, counted and measured as the target says: "20".
	// +optional
	Current string `json:"current,omitempty"`
}

// ScalingDecision is one decision.
type ScalingDecision struct {
	// The step that it was made in, as explain takes it: d-000042.
	// +optional
	ID string `json:"id,omitempty"`
	// When.
	// +optional
	Time metav1.Time `json:"time,omitempty"`
	// ScaleUp, ScaleDown or None.
	// +optional
	Action string `json:"action,omitempty"`
	// The replicas before.
	// +optional
	From int32 `json:"from"`
	// The replicas after.
	// +optional
	To int32 `json:"to"`
	// Whether it was carried out: not in mode Recommend.
	// +optional
	Applied bool `json:"applied"`
	// Why, in the order in which the reasons applied.
	// +optional
	// +listType=atomic
	Reasons []Reason `json:"reasons,omitempty"`
}

// Reason is why something was decided.
type Reason struct {
	// A stable code to match on, such as ScaleUpLimit.
	Code string `json:"code"`
	// A sentence with the numbers.
	Text string `json:"text"`
}
