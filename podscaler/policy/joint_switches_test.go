package policy_test

import (
	"testing"

	"github.com/plimsoll/plimsoll/podscaler/policy"
)

// Each mechanism can be switched off, and what is left decides.
func TestJointDecidesWithoutAnyOfItsMechanisms(t *testing.T) {
	for _, m := range policy.JointMechanisms {
		p, v := joint(t, policy.Joint{Without: m.Name}, 40)
		v.Room.Places = places(9, 9, 9)
		if r := p.Desired(v); !r.Known || r.Replicas < 5 || r.Replicas > 9 {
			t.Errorf("without %s it goes from 6 to %d (known %v)", m.Name, r.Replicas, r.Known)
		}
	}
	if _, err := policy.New(policy.Spec{Policy: "Joint", Joint: &policy.Joint{Without: "luck"}}); err == nil {
		t.Error("a mechanism that there is not is switched off")
	}
}
