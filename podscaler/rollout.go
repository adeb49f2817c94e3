package podscaler

import (
	"cmp"
	"slices"
	"strings"
)

// withoutSurge returns the pods without those that a rollout has for a time beyond the replicas.
// They take a share of the load and are no demand: a policy that counts pods would make them
// replicas, and the next rollout would add its surge to those. The ready and old ones stay, in
// their order.
func (v *View) withoutSurge() []Pod {
	if !v.Rollout.InProgress {
		return v.Pods
	}
	var alive []int
	for i := range v.Pods {
		if v.Pods[i].alive() {
			alive = append(alive, i)
		}
	}
	if len(alive) <= v.Replicas {
		return v.Pods
	}
	slices.SortFunc(alive, func(i, j int) int { return inSurge(&v.Pods[i], &v.Pods[j]) })
	surge := map[int]bool{}
	for _, i := range alive[v.Replicas:] {
		surge[i] = true
	}
	pods := make([]Pod, 0, len(v.Pods)-len(surge))
	for i := range v.Pods {
		if !surge[i] {
			pods = append(pods, v.Pods[i])
		}
	}
	return pods
}

// inSurge orders pods by how likely they are to be part of a surge.
func inSurge(a, b *Pod) int {
	if a.Ready != b.Ready {
		return map[bool]int{true: -1, false: 1}[a.Ready]
	}
	if a.Started.IsZero() != b.Started.IsZero() {
		return map[bool]int{true: 1, false: -1}[a.Started.IsZero()]
	}
	return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Name, b.Name))
}

// settled holds the shrinking of a workload whose pods are being replaced: they share the load with
// their successors, and seem idle. A rollout that has failed may stay half way for weeks: then the
// old pods carry the load as before.
func (s *Scaler) settled(v *View, d *Decision) (Reason, bool) {
	if d.To >= d.From || !v.Rollout.InProgress || v.Rollout.Failed {
		return Reason{}, false
	}
	why := ""
	if v.Rollout.Why != "" {
		why = ": " + v.Rollout.Why
	}
	return Because(ReasonRollout, "%d wanted, but the pods are being replaced%s", d.To, why), true
}
