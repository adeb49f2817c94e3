package v1alpha1

// Predictive is the settings of policy Predictive, which forecasts the requests that will come when
// new pods are ready, and has as many pods as serve them.
//
// +kubebuilder:validation:XValidation:rule="!has(self.members) || !has(self.forecaster) || self.forecaster in ['Ensemble', 'Race']",fieldPath=".members",messageExpression="'may be there only with forecaster Ensemble or Race, was ' + self.forecaster"
// +kubebuilder:validation:XValidation:rule="!has(self.quantile) || !has(self.marginalValue)",fieldPath=".quantile",messageExpression="'must be omitted with marginalValue, was ' + string(self.quantile)"
// +kubebuilder:validation:XValidation:rule="!has(self.lead) || !has(self.horizon)",fieldPath=".lead",messageExpression="'must be omitted with horizon, which counts instead, was ' + self.lead"
type Predictive struct {
	// The forecaster of the load. Default: Ensemble.
	// +optional
	Forecaster Forecaster `json:"forecaster,omitempty"`
	// The forecasters that an Ensemble weighs, or that compete in a Race. By default those that it
	// has by itself.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(m, !(m in ['Ensemble', 'Race']))",message="must be forecasters that have no members themselves, was Ensemble or Race among them"
	Members []Forecaster `json:"members,omitempty"`
	// What arrivals are meant over before they are learned from, from 10s to 1h and at least
	// runPeriod. Default: 1m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) >= duration('10s') && duration(self) <= duration('1h')",message="must be from 10s to 1h"
	Period *Duration `json:"period,omitempty"`
	// How many periods ahead the load is looked for. Default: as many as pods take to be ready,
	// which is measured.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=60
	Horizon int32 `json:"horizon,omitempty"`
	// How long pods take to be ready, machines included, while none has been seen to start; at most
	// 24h. Default: one period.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s') && duration(self) <= duration('24h')",message="must be above 0s and at most 24h"
	Lead *Duration `json:"lead,omitempty"`
	// Has pods sized for the load that is not exceeded with that chance, such as "0.95". Default:
	// for the mean.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == string && string(self).matches('^0+[.]0*[1-9][0-9]*$')",message="must be above 0 and below 1, in quotes, such as \"0.95\""
	Quantile *Ratio `json:"quantile,omitempty"`
	// Has pods added while one more is expected to save so many requests a second, in place of the
	// mean or a quantile.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+$')",message="must be above 0"
	MarginalValue *Ratio `json:"marginalValue,omitempty"`
	// The part of the pods' capacity that the load is to take, above 0 and at most 1. Default:
	// "0.9", with quantile or marginalValue, which make room themselves, 1; and "0.7" of a profile
	// that is learned, which says when the CPU is full and not when answers become slow.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self == 1 : string(self).matches('^0+[.]0*[1-9][0-9]*$') || string(self).matches('^0*1([.]0+)?$')",message="must be above 0 and at most 1"
	Excess *Ratio `json:"excess,omitempty"`
	// Keeps as many pods as the arrivals of the moment need, regardless of the forecast. Default:
	// true.
	// +optional
	ReactiveFloor *bool `json:"reactiveFloor,omitempty"`
	// What pods serve, in one of these forms. Default: learned.
	// +optional
	Profile *PredictiveProfile `json:"profile,omitempty"`
	// The target of an HPA on the pods' CPU, by whose rules it goes while nothing is known of what
	// comes. Default: 80 % of the request.
	// +optional
	CPU *PredictiveCPU `json:"cpu,omitempty"`
}

// PredictiveProfile says in one of several ways how many requests a second pods serve.
//
// +kubebuilder:validation:MaxProperties=1
type PredictiveProfile struct {
	// A line: x pods serve perPod·x + base.
	// +optional
	Linear *LinearProfile `json:"linear,omitempty"`
	// A parabola: x pods serve a·x² + b·x + c, up to its peak.
	// +optional
	Quadratic *QuadraticProfile `json:"quadratic,omitempty"`
	// What was measured, with straight lines between. Pods and totals rise from row to row.
	// +optional
	// +listType=map
	// +listMapKey=pods
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Table []ProfilePoint `json:"table,omitempty"`
	// Found out from the pods' CPU and the requests that come.
	// +optional
	Learned *LearnedProfile `json:"learned,omitempty"`
}

// LinearProfile is a line.
type LinearProfile struct {
	// How many requests a second each pod adds.
	// +required
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+$')",message="must be above 0"
	PerPod Ratio `json:"perPod"`
	// What the line has where there are no pods. Default: 0.
	// +optional
	Base Number `json:"base,omitempty"`
}

// QuadraticProfile is a parabola.
type QuadraticProfile struct {
	// The bend: below 0 where pods get in each other's way.
	// +required
	A Number `json:"a"`
	// The slope where there are no pods.
	// +required
	B Number `json:"b"`
	// What the parabola has where there are no pods. Default: 0.
	// +optional
	C Number `json:"c,omitempty"`
}

// ProfilePoint is a measurement.
type ProfilePoint struct {
	// How many pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Pods int32 `json:"pods"`
	// How many requests a second they served together.
	// +required
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+$')",message="must be above 0"
	Total Ratio `json:"total"`
}

// LearnedProfile is found out.
type LearnedProfile struct {
	// What a pod may use. Default: what it requests.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	CPU *Quantity `json:"cpu,omitempty"`
}

// PredictiveCPU is a target of the pods' CPU.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type PredictiveCPU struct {
	// In percent of what the pods request: 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	AverageUtilization *int32 `json:"averageUtilization,omitempty"`
	// For each pod: 500m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self != 0 : !string(self).matches('^[0.]+[A-Za-z]*$')",message="must be above 0"
	AverageValue *Quantity `json:"averageValue,omitempty"`
}
