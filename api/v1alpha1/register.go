package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the types.
var GroupVersion = schema.GroupVersion{Group: "plimsoll.dev", Version: "v1alpha1"}

// The kinds, as manifests name them.
const (
	KindWorkloadAutoscaler = "WorkloadAutoscaler"
	KindVMPool             = "VMPool"
	KindPriceBook          = "PriceBook"
	KindScalingProposal    = "ScalingProposal"
)

// AddToScheme adds the types to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&WorkloadAutoscaler{}, &WorkloadAutoscalerList{},
		&VMPool{}, &VMPoolList{},
		&PriceBook{}, &PriceBookList{},
		&ScalingProposal{}, &ScalingProposalList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
