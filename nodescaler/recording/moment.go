package recording

import (
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
)

// Moment is a step and all that it was decided by.
type Moment struct {
	Observation loop.Observation
	Intent      loop.Intent
	// Memory is what became of what was remembered before the step.
	Memory Remembered
	// Nodes is the policy for machines, at the beginning of a segment; nil decides on none.
	Nodes *nodepolicy.Spec
	// Step is the record of it, without what follows from the observation.
	Step loop.Step
	// Digest is that of the step.
	Digest uint64
}

// Remembered is what a step knew of those before.
type Remembered string

// What a step knew of those before. Empty is all that there was.
const (
	Nothing Remembered = "Nothing" // the first step of a term of leadership
	Jumped  Remembered = "Jumped"  // what outlives a jump of the clock
	Missed  Remembered = "Missed"  // steps that could not be recorded, too
)

// line is a moment as it is written.
type line struct {
	// Full says that the line is a picture of its own, by which a segment begins.
	Full        bool             `json:"full,omitempty"`
	Version     int              `json:"version,omitempty"`
	Time        time.Time        `json:"time"`
	Memory      Remembered       `json:"memory,omitempty"`
	Nodes       *nodepolicy.Spec `json:"nodePolicy,omitempty"`
	ClusterErr  string           `json:"clusterError,omitempty"`
	MachinesErr string           `json:"machinesError,omitempty"`
	Delta       delta            `json:"changes"`
	Step        loop.Step        `json:"step"`
	Digest      uint64           `json:"digest"`
}

// version is that of the format. A recording of another one cannot be read.
const version = 2

// Digest is a number by which two steps are known to be alike in everything that is decided. What
// came of them, how many steps there were before, and what was spent since the first, is no part of
// it.
func Digest(s *loop.Step) (uint64, error) {
	bare := *s
	bare.ID, bare.Observed, bare.Snapshot, bare.Outcomes = "", loop.Observed{}, nil, nil
	bare.Expected = slices.Clone(s.Expected)
	for i := range bare.Expected {
		bare.Expected[i].Error = ""
	}
	// Of the problems this one came of acting.
	bare.Problems = slices.DeleteFunc(slices.Clone(s.Problems), func(r nodescaler.Reason) bool { return r.Code == loop.CodePodsNotMarked })
	data, err := json.Marshal(struct {
		*loop.Step
		Deferred map[int]nodescaler.Reason
	}{&bare, s.Deferred})
	if err != nil {
		return 0, err
	}
	h := fnv.New64a()
	_, _ = h.Write(data)
	return h.Sum64(), nil
}

// errorText is the text of an error; of no error, empty.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}

// moment is what a line says, with the picture that it leads to.
func (l *line) moment(p *picture) *Moment {
	m := &Moment{Memory: l.Memory, Nodes: l.Nodes, Step: l.Step, Digest: l.Digest, Observation: p.observation(), Intent: p.intent()}
	o := &m.Observation
	o.Time, o.ClusterErr, o.MachinesErr = l.Time, textError(l.ClusterErr), textError(l.MachinesErr)
	o.Windows, o.Sizes, o.Uses = measurements(l.Delta.Windows), l.Delta.Sizes, l.Delta.Uses
	o.Histories = l.Delta.Histories
	return m
}
