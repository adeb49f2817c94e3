package testbedverb

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// What is to be pasted is read as the settings that were tuned, with the profile.
func TestTunedSettingsAreReadAsTheyWereTuned(t *testing.T) {
	for _, c := range []struct {
		profile  profileFile
		settings policy.Predictive
		read     policy.PredictiveProfile
	}{
		{profileFile{Linear: &linearProfile{12.5, -3}}, policy.Predictive{MarginalValue: new(0.625), Forecaster: "Race"},
			policy.PredictiveProfile{Linear: &policy.LinearProfile{PerPod: 12.5, Base: -3}}},
		{profileFile{Quadratic: &quadraticProfile{-0.5, 130, 200}}, policy.Predictive{Quantile: new(0.95), ReactiveFloor: new(false)},
			policy.PredictiveProfile{Quadratic: &policy.QuadraticProfile{A: -0.5, B: 130, C: 200}}},
		{profileFile{Table: []profilePoint{{1, 330}, {4, 700.25}}}, policy.Predictive{Excess: new(1.0)},
			policy.PredictiveProfile{Table: []policy.ProfilePoint{{Pods: 1, Total: 330}, {Pods: 4, Total: 700.25}}}},
	} {
		ask := &simulation{profile: profileQuestion{given: c.profile}}
		w := &v1alpha1.WorkloadAutoscaler{Spec: v1alpha1.WorkloadAutoscalerSpec{MaxReplicas: 10, PolicySpec: *ask.tunedSpec(&replay.Tried{Settings: c.settings})}}
		w.Namespace, w.Spec.ScaleTargetRef = "shop", v1alpha1.ScaleTargetRef{Kind: "Deployment", Name: "web"}
		_, got, _, err := resources.Autoscaler(w)
		want := c.settings
		want.Profile = c.read
		if diff := cmp.Diff(policy.Spec{Policy: "Predictive", Predictive: &want}, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

func TestItIsSaidWhyNothingIsOffered(t *testing.T) {
	for want, other := range map[string]string{
		"Nothing is offered: no other settings cost less than the default.":                                "the default",
		"Nothing is offered: in week 4, which did not choose it, excess 1 costs no less than the default.": "excess 1",
	} {
		a := &tuneAnswer{Weeks: 4, Tried: []tuneRow{{Settings: "the default", Weeks: "chosen"}, {Settings: other, Weeks: "checked"}}}
		var b bytes.Buffer
		if err := a.print(&b); err != nil || !strings.HasSuffix(b.String(), "\n"+want+"\n") || !strings.Contains(b.String(), "4, unseen") {
			t.Errorf("%v: prints %s; should %s", err, b.String(), want)
		}
	}
}
