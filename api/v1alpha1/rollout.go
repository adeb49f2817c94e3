package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Rollout is how machines are replaced once they drift, beside what budgets allow.
type Rollout struct {
	// How many machines may exist beside those that they replace: 2, or a part of the pool's,
	// rounded up: 20%. With 0, machines go only while their pods have room elsewhere. Not set, as
	// many as budgets let go.
	// +optional
	Surge NodeCount `json:"surge,omitempty"`
	// Replaces no further machine, as plimsoll rollout pause does.
	// +optional
	Paused bool `json:"paused,omitempty"`
	// Machines that are made first and watched. The others are replaced once these have worked for
	// so long and their pods are ready. Not set, none.
	// +optional
	Canary *Canary `json:"canary,omitempty"`
	// With how many new machines that failed the rollout stops. Not set, 2.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	MaxFailures int32 `json:"maxFailures,omitempty"`
	// For how long a workload with pods on new machines may miss its objective before the rollout
	// stops; one that missed it before does not count. Not set, 10m.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="must be above 0s"
	MissedFor Duration `json:"missedFor,omitempty"`
	// What follows when it stops. Rollback makes machines by the last good revision again, which
	// replaces those that were made since, until the pool's template changes. Stop leaves all
	// machines as they are. Not set, Rollback.
	// +optional
	// +kubebuilder:validation:Enum=Rollback;Stop
	OnFailure string `json:"onFailure,omitempty"`
	// A revision, as status.rollout has it, that is not to be rolled out: while the pool's is that
	// one, machines are made by the last good one, as plimsoll rollout undo has it.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^[0-9a-f]+$')`,message="must be a revision as status.rollout has it: digits and the letters a to f"
	Undo string `json:"undo,omitempty"`
}

// Canary is how many machines are watched, and for how long.
type Canary struct {
	// How many.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Machines int32 `json:"machines"`
	// For how long: 30m.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$') || duration(self) > duration('0s')",message="must be above 0s"
	For Duration `json:"for"`
}

// RolloutStatus is how far the pool's machines are what it would make now.
type RolloutStatus struct {
	// A digest of what of the spec makes machines what they are.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Complete, Canary, Progressing, Paused, Stopped, RollingBack or RolledBack.
	// +optional
	Phase string `json:"phase,omitempty"`
	// The machines that have joined and are what the pool would make now.
	Updated int32 `json:"updated"`
	// The machines that have joined.
	Total int32 `json:"total"`
	// When this rollout began.
	// +optional
	Began metav1.Time `json:"began,omitempty"`
	// Since when the phase has been this one.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
	// Whether the canary has worked for long enough.
	// +optional
	CanaryPassed bool `json:"canaryPassed,omitempty"`
	// New machines that failed, at most the first 16.
	// +optional
	// +listType=atomic
	Failed []string `json:"failed,omitempty"`
	// The code of why it is so far.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Why it is so far.
	// +optional
	Message string `json:"message,omitempty"`
	// The last revision that was rolled out whole.
	// +optional
	LastGood *GoodRevision `json:"lastGood,omitempty"`
}

// GoodRevision is what a pool's machines were made from and worked.
type GoodRevision struct {
	// Its digest.
	Revision string `json:"revision"`
	// The keys of the spec that make machines what they are, as JSON.
	Spec string `json:"spec"`
}
