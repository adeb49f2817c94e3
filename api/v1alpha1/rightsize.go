package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RightsizeMode is how far recommendations for containers go.
//
// +kubebuilder:validation:Enum=Off;Initial;InPlace;Auto
type RightsizeMode string

// The modes of a rightsize block.
const (
	RightsizeOff     RightsizeMode = "Off"     // recommend, do nothing
	RightsizeInitial RightsizeMode = "Initial" // set what pods request as they are created
	RightsizeInPlace RightsizeMode = "InPlace" // resize pods that run
	RightsizeAuto    RightsizeMode = "Auto"    // and evict those that their node has no room for
)

// LimitsRule is how containers share their node as limits.
//
// +kubebuilder:validation:Enum=DRF;MLFDRS;FFMRA
type LimitsRule string

// The rules of a rightsize block.
const (
	LimitsDRF    LimitsRule = "DRF"    // dominant resource fairness
	LimitsMLFDRS LimitsRule = "MLFDRS" // multi-level fair dominant resource scheduling
	LimitsFFMRA  LimitsRule = "FFMRA"  // fully fair multi-resource allocation
)

// Rightsize says what is done about what the containers of a workload request.
type Rightsize struct {
	// "Off", which YAML wants in quotes, says in the status what each container should request, and
	// does nothing. Initial sets that as pods are created, for which admission must be configured.
	// InPlace does that where it is configured, and resizes pods that run, one of the workload at a
	// time and without evicting any, while the object's own mode is Active and it is not paused.
	// Auto does that, and evicts a pod that its node has no room to resize, within disruption
	// budgets. Where the policy scales replicas by use in proportion to requests, those requests
	// are kept.
	// +optional
	// +kubebuilder:default=Off
	Mode RightsizeMode `json:"mode,omitempty"`
	// The rule by which containers share their node as limits, by what they request: those of all
	// workloads that have a rule, of what the node has beside the requests of all others. The mode
	// says how far that goes: Off and Initial say in the status what each may use, InPlace and Auto
	// set it. By default, limits keep their proportion to requests.
	// +optional
	Limits LimitsRule `json:"limits,omitempty"`
	// How many pods there must be for mode Auto to evict one.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// What is allowed for which container. Without an entry everything is.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Containers []ContainerPolicy `json:"containers,omitempty"`
}

// ContainerPolicy is what is allowed for a container.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || !has(self.minAllowed.cpu) || !has(self.maxAllowed.cpu) || !isQuantity(string(self.minAllowed.cpu)) || !isQuantity(string(self.maxAllowed.cpu)) || quantity(string(self.maxAllowed.cpu)).compareTo(quantity(string(self.minAllowed.cpu))) >= 0",fieldPath=".maxAllowed.cpu",messageExpression="'must be at least minAllowed.cpu, which is ' + string(self.minAllowed.cpu) + ', was ' + string(self.maxAllowed.cpu)"
// +kubebuilder:validation:XValidation:rule="!has(self.minAllowed) || !has(self.maxAllowed) || !has(self.minAllowed.memory) || !has(self.maxAllowed.memory) || !isQuantity(self.minAllowed.memory.replace('KB', 'k').replace('B', 'B'.substring(1))) || !isQuantity(self.maxAllowed.memory.replace('KB', 'k').replace('B', 'B'.substring(1))) || quantity(self.maxAllowed.memory.replace('KB', 'k').replace('B', 'B'.substring(1))).compareTo(quantity(self.minAllowed.memory.replace('KB', 'k').replace('B', 'B'.substring(1)))) >= 0",fieldPath=".maxAllowed.memory",messageExpression="'must be at least minAllowed.memory, which is ' + self.minAllowed.memory + ', was ' + self.maxAllowed.memory"
type ContainerPolicy struct {
	// The container's name; "*" is all that have no entry of their own.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^([*]|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$')`,message="must be * or the name of a container: lower-case letters, digits and -, neither end a -"
	Name string `json:"name"`
	// Leaves the container alone: nothing is recommended for it.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
	// The least that is recommended.
	// +optional
	MinAllowed *ContainerResources `json:"minAllowed,omitempty"`
	// The most that is recommended.
	// +optional
	MaxAllowed *ContainerResources `json:"maxAllowed,omitempty"`
	// The resources that are recommended: cpu, memory. Default: both.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	ControlledResources []ResourceName `json:"controlledResources,omitempty"`
}

// ResourceName is what a container requests.
//
// +kubebuilder:validation:Enum=cpu;memory
type ResourceName string

// ContainerResources bound what a container requests. What is omitted has no bound.
type ContainerResources struct {
	// Cores: 500m, 2.
	// +optional
	CPU *Cores `json:"cpu,omitempty"`
	// Memory with its unit: 64Mi, 2GiB.
	// +optional
	Memory *Size `json:"memory,omitempty"`
}

// RightsizeStatus is what the containers of a workload should request, and what was done about it.
type RightsizeStatus struct {
	// What is recommended, by container.
	// +optional
	// +listType=map
	// +listMapKey=name
	Containers []ContainerRecommendation `json:"containers,omitempty"`
	// Why pods are, or are not, being resized.
	// +optional
	Reason *Reason `json:"reason,omitempty"`
	// The last resize of a pod that was asked for.
	// +optional
	LastResize *PodResize `json:"lastResize,omitempty"`
	// What pods request as they are created, by container; omitted while that is what their
	// template says.
	// +optional
	// +listType=map
	// +listMapKey=name
	Created []CreatedContainer `json:"created,omitempty"`
	// What containers may use as their share of their nodes, by container, where
	// spec.rightsize.limits has a rule.
	// +optional
	// +listType=map
	// +listMapKey=name
	Limits []ContainerLimits `json:"limits,omitempty"`
	// What was learnt of the containers' use, for the process that leads next. Without it that is
	// learnt anew.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Checkpoint string `json:"checkpoint,omitempty"`
}

// ContainerRecommendation is what a container should request. It omits a resource that is not
// recommended.
type ContainerRecommendation struct {
	// The container.
	Name string `json:"name"`
	// What to request.
	// +optional
	Target ContainerAmounts `json:"target,omitzero"`
	// The least that a pod may request and be left alone.
	// +optional
	Lower ContainerAmounts `json:"lower,omitzero"`
	// The most that a pod may request and be left alone. Omitted while too little is known to say.
	// +optional
	Upper ContainerAmounts `json:"upper,omitzero"`
	// What target would be if the container had no bounds.
	// +optional
	Uncapped ContainerAmounts `json:"uncapped,omitzero"`
	// What was measured, and which bounds held.
	// +optional
	// +listType=atomic
	Reasons []Reason `json:"reasons,omitempty"`
}

// CreatedContainer is what a container requests as its pod is created.
type CreatedContainer struct {
	// The container.
	Name string `json:"name"`
	// What it requests.
	Requests ContainerAmounts `json:"requests"`
	// Whether it requests no less than its template says, since less than a day of samples is
	// known.
	// +optional
	RaiseOnly bool `json:"raiseOnly,omitempty"`
}

// ContainerLimits is what a container may use. It omits a resource that the container has no share
// of.
type ContainerLimits struct {
	// The container.
	Name string `json:"name"`
	// The least over its pods: as a limit in the template it suits the node of each.
	// +optional
	Least ContainerAmounts `json:"least,omitzero"`
	// The most over its pods.
	// +optional
	Most ContainerAmounts `json:"most,omitzero"`
	// What the least share is a share of, and which pod has none.
	// +optional
	// +listType=atomic
	Reasons []Reason `json:"reasons,omitempty"`
}

// ContainerAmounts are amounts as Kubernetes writes them.
type ContainerAmounts struct {
	// Cores: 350m.
	// +optional
	CPU string `json:"cpu,omitempty"`
	// Memory, in bytes where there is no unit: 256Mi, 764046746.
	// +optional
	Memory string `json:"memory,omitempty"`
}

// PodResize is a resize of a pod.
type PodResize struct {
	// The pod.
	Pod string `json:"pod"`
	// When it was asked for.
	Time metav1.Time `json:"time"`
	// Whether the API server took it. Whether the node could is the pod's to say.
	Applied bool `json:"applied"`
	// Why, and what came of it.
	// +optional
	// +listType=atomic
	Reasons []Reason `json:"reasons,omitempty"`
}
