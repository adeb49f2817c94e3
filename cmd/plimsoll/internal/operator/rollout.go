package operator

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// madeBy are the keys of a VMPool's spec that make machines what they are.
var madeBy = []string{
	"template", "clone", "storage", "format", "bridge", "vlan", "firewall", "network", "pvePool", "labels", "taints", "region", "zone", "join", "guest",
}

// goodSpec is what of a spec makes machines what they are.
func goodSpec(s *v1alpha1.VMPoolSpec) (string, error) {
	keys, err := keysOf(s)
	if err != nil {
		return "", err
	}
	for key := range keys {
		if !slices.Contains(madeBy, key) {
			delete(keys, key)
		}
	}
	text, err := json.Marshal(keys)
	return string(text), err
}

func keysOf(s *v1alpha1.VMPoolSpec) (keys map[string]json.RawMessage, err error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return keys, json.Unmarshal(text, &keys)
}

// asGood is a pool as it would be by an earlier spec of what makes its machines.
func asGood(p *v1alpha1.VMPool, good string) (*v1alpha1.VMPool, error) {
	keys, err := keysOf(&p.Spec)
	if err != nil {
		return nil, err
	}
	var earlier map[string]json.RawMessage
	if err := json.Unmarshal([]byte(good), &earlier); err != nil {
		return nil, err
	}
	for _, key := range madeBy {
		delete(keys, key)
		if value, is := earlier[key]; is {
			keys[key] = value
		}
	}
	text, err := json.Marshal(keys)
	if err != nil {
		return nil, err
	}
	was := p.DeepCopy()
	was.UID, was.Spec = p.UID+"/good", v1alpha1.VMPoolSpec{}
	return was, json.Unmarshal(text, &was.Spec)
}

// layRollout has the pool's machines made by the last good revision where its rollout goes back.
// There is no way back to one that cannot be read any more, or is not what its digest says.
func (c *Config) layRollout(p *pool, earlier *readings, now time.Time) {
	by := &p.pve.Disruption
	if by.Drift != nodescaler.DriftReplace {
		return
	}
	r := &nodescaler.Rolling{Revision: p.pve.Revision(), Was: rolled(p.object.Status.Rollout), Resumed: annotatedTime(p.object, v1alpha1.AnnotationRolloutResumed, now)}
	p.rolling = r
	if r.Was.Good == "" || r.Was.Good == r.Revision {
		return
	}
	good, err := asGood(p.object, p.object.Status.Rollout.LastGood.Spec)
	if err != nil {
		r.Was.Good = ""
		return
	}
	settings, err := earlier.pool(good, c.ReadFile)
	if err != nil || settings.Revision() != r.Was.Good {
		r.Was.Good = ""
		return
	}
	if r.Back = r.GoesBack(by.Rollout); r.Back {
		settings.Resumed, settings.At = p.pve.Resumed, p.pve.At
		p.pve = settings
	}
}

// rolled is how far a rollout was by the pool's status.
func rolled(st *v1alpha1.RolloutStatus) (r nodescaler.Rolled) {
	if st == nil {
		return r
	}
	r = nodescaler.Rolled{
		Revision: st.Revision, Phase: nodescaler.RolloutPhase(st.Phase), Began: st.Began.Time, Since: st.Since.Time, Proven: st.CanaryPassed,
		Failed: slices.Clone(st.Failed), Updated: int(st.Updated), Total: int(st.Total), Why: nodescaler.Reason{Code: st.Reason, Text: st.Message},
	}
	if st.LastGood != nil {
		r.Good = st.LastGood.Revision
	}
	return r
}

// rollout states how far the pool's rollout is.
func (p *pool) rollout(c conditions, st *v1alpha1.VMPoolStatus, s *loop.Step) {
	kind := v1alpha1.ConditionRolledOut
	if p.rolling == nil {
		st.Rollout = nil
		if meta.FindStatusCondition(*c.list, kind) != nil { // to remove is to copy
			meta.RemoveStatusCondition(c.list, kind)
		}
		return
	}
	now, is := s.Rollouts[p.object.Name]
	if !is {
		return
	}
	to := &v1alpha1.RolloutStatus{
		Revision: now.Revision, Phase: string(now.Phase),
		Updated: int32(now.Updated), Total: int32(now.Total), //nolint:gosec // there are few
		Began: metav1.NewTime(now.Began), Since: metav1.NewTime(now.Since), CanaryPassed: now.Proven, Failed: now.Failed, Reason: now.Why.Code, Message: now.Why.Text,
	}
	if before := st.Rollout; before != nil {
		to.LastGood = before.LastGood
	}
	if now.Phase == nodescaler.PhaseComplete && (to.LastGood == nil || to.LastGood.Revision != now.Revision) {
		if spec, err := goodSpec(&p.object.Spec); err == nil {
			to.LastGood = &v1alpha1.GoodRevision{Revision: now.Revision, Spec: spec}
		}
	}
	st.Rollout = to
	status := metav1.ConditionFalse
	if now.Phase == nodescaler.PhaseComplete {
		status = metav1.ConditionTrue
	}
	c.set(kind, status, now.Why.Code, "%s%s", now.Why.Text, notResumed(p.object, v1alpha1.AnnotationRolloutResumed, s.Time))
}

// rolloutFailed are the reasons of the condition RolledOut that a person should see to.
var rolloutFailed = []string{nodescaler.RolloutFailed, nodescaler.RolloutRollingBack, nodescaler.RolloutRolledBack}

// missedSince is since when a workload's objective has been missed; zero while it is not.
func missedSince(a *v1alpha1.WorkloadAutoscaler) time.Time {
	c := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionSLOAtRisk)
	if c == nil || c.Status != metav1.ConditionTrue {
		return time.Time{}
	}
	return c.LastTransitionTime.Time
}
