package recording

import (
	"cmp"
	"fmt"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
)

// Replay decides moments again, one after another. The zero Replay decides as it was decided.
type Replay struct {
	// Change changes what is wanted, before it is decided; nil leaves it as it was.
	Change func(*loop.Intent)
	// Nodes is the policy for machines; nil is that of the recording.
	Nodes *nodepolicy.Spec

	memory loop.Memory
	begun  bool
	whole  bool
}

// Whole reports whether nothing is missing from what the recorded steps remembered: all were
// decided again from the first of their term on.
func (r *Replay) Whole() bool { return r.whole }

// Decide decides a moment again. What came of the recorded step is learnt from, where the step that
// comes out is the same; otherwise nothing came of it.
func (r *Replay) Decide(m *Moment) (s loop.Step, same bool, err error) {
	if err := r.remember(m); err != nil {
		return loop.Step{}, false, err
	}
	in := m.Intent
	if r.Change != nil {
		r.Change(&in)
	}
	s = loop.Decide(&m.Observation, &in, &r.memory)
	s.ID = m.Step.ID // how many steps were made before the recording is not part of it
	digest, err := Digest(&s)
	if err != nil {
		return loop.Step{}, false, err
	}
	if same = digest == m.Digest; same && !in.DryRun && m.Observation.ClusterErr == nil {
		s.Outcomes = m.Step.Outcomes
		r.memory.Learn(&s)
	}
	return s, same, nil
}

// remember brings what is remembered to where the recorded step had it.
func (r *Replay) remember(m *Moment) error {
	switch {
	case m.Memory == Jumped && r.begun:
		r.memory = r.memory.Jump(m.Observation.Time)
	case m.Memory == Missed && r.begun:
		r.whole = false
		return nil
	case m.Memory == "" && r.begun:
		return nil
	default:
		r.memory, r.begun, r.whole = loop.Memory{}, true, m.Memory == Nothing
	}
	nodes := cmp.Or(r.Nodes, m.Nodes)
	if nodes == nil {
		return nil
	}
	policy, err := nodepolicy.New(*nodes)
	if err != nil {
		return fmt.Errorf("node policy: %w", err)
	}
	r.memory.Nodes = policy
	return nil
}
