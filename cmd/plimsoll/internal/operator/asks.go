package operator

import (
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// What a workload's pods ask for is what new pods do, as each was when it was first seen: targets
// in percent of it would else change with each pod that is resized in place. A pod that is made
// again elsewhere by the same template changes nothing, and neither does a moment without any pod.

// asks are what new pods ask for, by workload.
type asks map[string]ask

type ask struct {
	created  time.Time // the newest pod so far
	requests pricing.Resources
}

// see takes in the pods that are newer than those seen before, and forgets workloads without an
// autoscaler.
func (a *asks) see(pods []nodescaler.Pod, of []*v1alpha1.WorkloadAutoscaler) map[string]pricing.Resources {
	was := *a
	*a = make(asks, len(of))
	for _, o := range of {
		name := o.Namespace + "/" + o.Name
		(*a)[name] = was[name]
	}
	for i := range pods {
		p := &pods[i]
		if newest, asked := (*a)[p.Workload]; asked && !p.Terminating && (newest == (ask{}) || p.Created.After(newest.created)) {
			(*a)[p.Workload] = ask{p.Created, p.Requests}
		}
	}
	all := make(map[string]pricing.Resources, len(*a))
	for name, is := range *a {
		all[name] = is.requests
	}
	return all
}
