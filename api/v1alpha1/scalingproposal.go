package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// A ScalingProposal is a change that Plimsoll would make to a VMPool or a WorkloadAutoscaler in
// mode Approve, and asks people about. Those of pools are in Plimsoll's own namespace, those of
// workloads in theirs. A person approves or rejects it by spec.approval, once; all else of it is
// Plimsoll's.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,shortName=sp,categories=plimsoll
// +kubebuilder:printcolumn:name="What",type=string,JSONPath=`.spec.proposed.what`
// +kubebuilder:printcolumn:name="Price/h",type=string,JSONPath=`.spec.proposed.pricePerHour`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Decision",type=string,JSONPath=`.spec.approval.decision`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.proposed.until`
// +kubebuilder:printcolumn:name="Why",type=string,JSONPath=`.spec.proposed.why[0].text`,priority=1
// +kubebuilder:printcolumn:name="By",type=string,JSONPath=`.spec.approval.by`,priority=1
type ScalingProposal struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What is proposed, and what a person said.
	// +required
	Spec ScalingProposalSpec `json:"spec"`
	// What became of it.
	// +optional
	Status ScalingProposalStatus `json:"status,omitempty"`
}

// ScalingProposalList is a list of ScalingProposals.
//
// +kubebuilder:object:root=true
type ScalingProposalList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ScalingProposal `json:"items"`
}

// ScalingProposalSpec is what is proposed, and the answer.
//
// +kubebuilder:validation:XValidation:rule="self.proposed == oldSelf.proposed",fieldPath=".proposed",message="must not change: Plimsoll makes another proposal if something else is to be done"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.approval) || has(self.approval) && self.approval == oldSelf.approval",fieldPath=".approval",messageExpression="'must not change once it is set, and was ' + oldSelf.approval.decision"
type ScalingProposalSpec struct {
	// What is proposed. It cannot be changed.
	// +required
	Proposed ProposedChange `json:"proposed"`
	// What a person said. It can be set once.
	// +optional
	Approval *Approval `json:"approval,omitempty"`
}

// ProposedChange is what would be done, why, at what price, and until when it may be approved.
type ProposedChange struct {
	// The kind of the object that it is done to.
	// +required
	// +kubebuilder:validation:Enum=VMPool;WorkloadAutoscaler
	Kind string `json:"kind"`
	// The name of that object: of a VMPool, or of a WorkloadAutoscaler in the same namespace.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Object string `json:"object"`
	// What is done: Order, Wake or End of a pool's machines, Grow or Shrink of a workload, or
	// Resize of one of its pods.
	// +required
	// +kubebuilder:validation:Enum=Order;Wake;End;Grow;Shrink;Resize
	Does string `json:"does"`
	// The shape, the machine or the pod that it is done to.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Subject string `json:"subject,omitempty"`
	// How many machines, at most.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Count int32 `json:"count,omitempty"`
	// How many replicas there were.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	From int32 `json:"from,omitempty"`
	// How many replicas there may be.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	To int32 `json:"to,omitempty"`
	// All of it, in words.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	What string `json:"what"`
	// Why.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Why []Reason `json:"why,omitempty"`
	// What it adds to what all machines cost an hour; less than 0 is saved.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	PricePerHour string `json:"pricePerHour,omitempty"`
	// The currency of that.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Currency string `json:"currency,omitempty"`
	// When it was proposed.
	// +required
	Made metav1.Time `json:"made"`
	// When an answer comes too late.
	// +required
	Until metav1.Time `json:"until"`
}

// Approval is what a person said.
type Approval struct {
	// Approved or Rejected.
	// +required
	// +kubebuilder:validation:Enum=Approved;Rejected
	Decision ApprovalDecision `json:"decision"`
	// Who says so, for people who wonder. The audit log of the API server knows for certain.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	By string `json:"by,omitempty"`
	// Why, for people who wonder.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Note string `json:"note,omitempty"`
}

// ApprovalDecision is a yes or a no.
type ApprovalDecision string

// What a person can say.
const (
	Approved ApprovalDecision = "Approved"
	Rejected ApprovalDecision = "Rejected"
)

// ScalingProposalStatus is what became of a proposal. Plimsoll alone writes it.
type ScalingProposalStatus struct {
	// The digest of what was proposed. A proposal without it, or with another one, is ignored.
	// +optional
	Digest string `json:"digest,omitempty"`
	// Open, Followed, Rejected, Expired, Outgrown or Ignored. Followed is one that was approved,
	// and that Plimsoll has begun to carry out: it does so once.
	// +optional
	Phase string `json:"phase,omitempty"`
	// Why it is in this phase.
	// +optional
	Message string `json:"message,omitempty"`
	// Since when it is.
	// +optional
	Since metav1.Time `json:"since,omitempty"`
}

// PoolApproval is what a VMPool in mode Approve does without asking. By default it asks about
// everything.
type PoolApproval struct {
	// What goes ahead.
	// +optional
	Proceed PoolProceeds `json:"proceed,omitempty"`
}

// PoolProceeds is what goes ahead of itself.
type PoolProceeds struct {
	// Orders machines and starts spares while all of the pool's cost no more than this an hour,
	// with the fixed part of their hosts: "2.50". Not set, none.
	// +optional
	BuysUpToPerHour Money `json:"buysUpToPerHour,omitempty"`
	// Whether machines go that failed or are broken.
	// +optional
	Repairs bool `json:"repairs,omitempty"`
	// Whether machines are drained and go.
	// +optional
	Ends bool `json:"ends,omitempty"`
}

// WorkloadApproval is what a WorkloadAutoscaler in mode Approve does without asking. By default it
// asks about everything.
type WorkloadApproval struct {
	// What goes ahead.
	// +optional
	Proceed WorkloadProceeds `json:"proceed,omitempty"`
}

// WorkloadProceeds is what goes ahead of itself.
type WorkloadProceeds struct {
	// Adds replicas up to so many. Not set, none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	GrowthUpToReplicas int32 `json:"growthUpToReplicas,omitempty"`
	// Whether replicas are removed.
	// +optional
	Shrinks bool `json:"shrinks,omitempty"`
	// Whether pods get other requests.
	// +optional
	Resizes bool `json:"resizes,omitempty"`
}
