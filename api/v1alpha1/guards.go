package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Schedule is a window in which a workload has other bounds.
//
// +kubebuilder:validation:XValidation:rule="has(self.start) == has(self.end)",fieldPath=".start",message="must be there together with end, was without one of them"
// +kubebuilder:validation:XValidation:rule="has(self.from) == has(self.to)",fieldPath=".from",message="must be there together with to, was without one of them"
// +kubebuilder:validation:XValidation:rule="has(self.start) != has(self.from)",fieldPath=".start",messageExpression="'must be there with end for a window that comes again, or from and to for one that comes once, was ' + (has(self.start) ? 'both' : 'neither')"
// +kubebuilder:validation:XValidation:rule="!has(self.from) || !has(self.to) || self.to > self.from",fieldPath=".to",message="must be after from"
// +kubebuilder:validation:XValidation:rule="!has(self.timeZone) || has(self.start)",fieldPath=".timeZone",message="must be omitted with from and to, which have theirs"
// +kubebuilder:validation:XValidation:rule="has(self.minReplicas) || has(self.maxReplicas)",fieldPath=".minReplicas",message="must be there, or maxReplicas, was neither"
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.maxReplicas >= self.minReplicas",fieldPath=".maxReplicas",messageExpression="'must be at least minReplicas, which is %d, was %d'.format([self.minReplicas, self.maxReplicas])"
type Schedule struct {
	// What it is called in decisions.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// When it opens, as cron writes it: minute, hour, day of month, month, day of week. "0 8 * *
	// 1-5" is eight o'clock on weekdays.
	// +optional
	Start CronTime `json:"start,omitempty"`
	// When it closes, as cron writes it.
	// +optional
	End CronTime `json:"end,omitempty"`
	// When it opens, for a window that comes once: 2026-03-01T08:00:00Z.
	// +optional
	From *metav1.Time `json:"from,omitempty"`
	// When it closes, for a window that comes once.
	// +optional
	To *metav1.Time `json:"to,omitempty"`
	// The time zone of start and end by its IANA name, such as Europe/Berlin. Default: UTC.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')`,message="must be UTC or the name of a time zone: Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// The fewest replicas while it is open. Of several windows, the highest counts.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// The most replicas while it is open. Of several windows, the lowest counts; where it would be
	// below the fewest, those count.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	// How long before it opens the bounds begin to move there in steps, and how long after it
	// closes they are back; at most 24h. By default they move at once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('24h')",message="must be at most 24h"
	Ramp Duration `json:"ramp,omitempty"`
}

// Idle is how few replicas there are while nothing calls for a workload: no metric of type Object
// or External is above its activation, and no schedule with minReplicas is open.
type Idle struct {
	// How many, below minReplicas. Default: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Replicas int32 `json:"replicas,omitempty"`
	// How long nothing must have called for it, at most 24h.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('24h')",message="must be at most 24h"
	After Duration `json:"after,omitempty"`
}

// CronTime is a time that comes again and again.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:XValidation:rule=`self.matches(r'^(@[a-z]+|[0-9A-Za-z*,/-]+( +[0-9A-Za-z*,/-]+){4})$')`,message="must be five fields as in a crontab, or a word such as @daily: 0 8 * * 1-5"
type CronTime string

// Fallback is what is done when the policy has no answer.
//
// +kubebuilder:validation:XValidation:rule="self.behavior == 'Current' || has(self.replicas)",fieldPath=".replicas",messageExpression="'must be there with behavior ' + self.behavior + ', was without'"
// +kubebuilder:validation:XValidation:rule="self.behavior != 'Current' || !has(self.replicas)",fieldPath=".replicas",message="must be omitted with behavior Current, which leaves those that there are"
type Fallback struct {
	// How long the policy must have had no answer, from 1m to 24h.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('1m') && duration(self) <= duration('24h')",message="must be from 1m to 24h"
	After Duration `json:"after,omitempty"`
	// How many replicas there are to be then. Static: as many as replicas says. Current: as many as
	// there are. CurrentIfHigher, CurrentIfLower: the larger, or the smaller, of the two. Static
	// and CurrentIfLower may shrink a workload of which nothing is known.
	// +optional
	// +kubebuilder:default=CurrentIfHigher
	// +kubebuilder:validation:Enum=Static;Current;CurrentIfHigher;CurrentIfLower
	Behavior string `json:"behavior,omitempty"`
	// How many, for all behaviors but Current.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Replicas *int32 `json:"replicas,omitempty"`
}

// Readiness says when a pod counts, and when too few do.
type Readiness struct {
	// How long after a pod's start a change of readiness is still part of starting, at most 1h;
	// default: 30s.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('1h')",message="must be at most 1h"
	InitialDelay *Duration `json:"initialDelay,omitempty"`
	// How long after a pod's start its CPU counts only if the pod was ready throughout the sample,
	// at most 1h; default: 5m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) <= duration('1h')",message="must be at most 1h"
	CPUInitialization *Duration `json:"cpuInitialization,omitempty"`
	// The share of the replicas, in percent, that must be ready before anything is changed; by
	// default none need be.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MinAvailablePercent int32 `json:"minAvailablePercent,omitempty"`
}

// Upstream says what is taken for an outage of those who call the workload, or of those it calls.
type Upstream struct {
	// Does not look for it.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// The share of the requests that must be gone, above 0 and at most 1; default: "0.9".
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self == 1 : string(self).matches('^(0[.]0*[1-9][0-9]*|1([.]0+)?)$')",message="must be above 0 and at most 1, such as \"0.9\""
	Drop *Ratio `json:"drop,omitempty"`
	// In what time they must have gone, besides the window that they are measured over; at most 1h.
	// Default: 1m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s') && duration(self) <= duration('1h')",message="must be above 0s and at most 1h"
	Within *Duration `json:"within,omitempty"`
	// By how much the fraction of failed requests must have risen, above 0 and at most 1; default:
	// "0.01".
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self == 1 : string(self).matches('^(0[.]0*[1-9][0-9]*|1([.]0+)?)$')",message="must be above 0 and at most 1, such as \"0.01\""
	ErrorRise *Ratio `json:"errorRise,omitempty"`
	// How long nothing is shrunk then, at most 24h; default: 15m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be above 0s and at most 24h"
	Hold *Duration `json:"hold,omitempty"`
}

// NotificationRef names a receiver of notifications.
type NotificationRef struct {
	// The name of a receiver in the configuration of plimsoll run.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
}
