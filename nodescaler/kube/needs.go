package kube

import (
	"cmp"
	"slices"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
)

// Need is something that the API server must allow us.
type Need struct {
	Group, Resource string // the resource with its subresource: pods/eviction; "*" is any
	Verb            string
	// Own limits the need to the namespace that Plimsoll runs in.
	Own bool
}

// Needs returns what the API server must allow in a mode, sorted. What every authenticated user may
// do is not among it: to read which kinds there are, and whether the API server is ready.
func Needs(m Mode) []Need {
	var all []Need
	add := func(group, resource string, own bool, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, Need{group, resource, verb, own})
		}
	}
	for i := range copies.Kinds {
		if !copies.Kinds[i].ForBuffers {
			add(copies.Kinds[i].Group, copies.Kinds[i].Resource, false, "list", "watch")
		}
	}
	add("", "namespaces", false, "get") // the UID of kube-system alone
	add("*", "*/scale", false, "get")   // of any kind that an autoscaler may name
	if m.allows(Recommend) {
		for _, i := range []copies.Kind{copies.Autoscalers, copies.VMPools, copies.PriceBooks} {
			add(v1alpha1.GroupVersion.Group, copies.Kinds[i].Resource+"/status", false, "patch")
		}
		add("events.k8s.io", "events", false, "create")
		add("coordination.k8s.io", "leases", true, "get", "create", "update")
	}
	if m.allows(Active) {
		add("*", "*/scale", false, "patch")
		add("", "nodes", false, "get", "patch", "delete")
		add("", "pods", false, "patch") // their deletion cost
		add("", "pods/eviction", false, "create")
		add("", "pods", false, "delete") // at the end of a drain that has one
		add("", "pods/resize", false, "patch")
		add(v1alpha1.GroupVersion.Group, copies.Kinds[copies.Proposals].Resource, false, "create", "delete")
		add(v1alpha1.GroupVersion.Group, copies.Kinds[copies.Proposals].Resource+"/status", false, "patch")
	}
	sortNeeds(all)
	return all
}

func sortNeeds(all []Need) {
	slices.SortFunc(all, func(a, b Need) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb))
	})
}

// Needs returns what the API server must allow besides in mode Active to make expected replicas
// known, sorted. The right to create placeholders is the right to create any pod, so it is only
// needed on request.
func (h HandOff) Needs() []Need {
	var all []Need
	add := func(group, resource string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, Need{Group: group, Resource: resource, Verb: verb})
		}
	}
	switch h.By {
	case ByCapacityBuffer:
		add(copies.BufferGroup, copies.BufferResource, "create", "get", "update")
	case ByPlaceholders:
		add("apps", "deployments", "create", "get", "update")
		add("apps", "statefulsets", "get")
		add("", "pods", "get") // of targets that have no template
		add("scheduling.k8s.io", "priorityclasses", "get")
	case ByNothing:
	}
	sortNeeds(all)
	return all
}
