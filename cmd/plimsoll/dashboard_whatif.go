package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	"github.com/plimsoll/plimsoll/testbed/whatif"
)

// showRecording shows the steps of a recording, decided again, and opens the door to What if.
func showRecording(env *cli.Env, h *dashboard.History, path string) error {
	var replay recording.Replay
	door := &whatIfDoor{}
	err := readRecording(path, func(m *recording.Moment) error {
		if door.wrong == nil { // a load that cannot be played is no reason not to show its steps
			door.wrong = door.recorded.Add(m)
		}
		s, _, err := replay.Decide(m)
		if err != nil {
			return err
		}
		s.ID = m.Step.ID
		return s.Record(h)
	})
	if h.Doors.WhatIf = door; door.wrong != nil {
		h.Doors.WhatIf = nil
		fmt.Fprintln(env.Stderr, "note: the page has no view What if:", door.wrong)
	}
	return err
}

// whatIfDoor answers the page's questions, one at a time.
type whatIfDoor struct {
	recorded whatif.Recorded
	wrong    error // why the load cannot be played
	playing  sync.Mutex
}

// Choices are what can be asked.
func (d *whatIfDoor) Choices() any { return d.recorded.Choices() }

// whatIfAsked is a question as the page asks it.
type whatIfAsked struct {
	whatif.Change
	// ThinkMs is how long users think after each answer; 0 has requests arrive as recorded.
	ThinkMs float64 `json:"thinkMs,omitempty"`
}

// Ask plays the load.
func (d *whatIfDoor) Ask(ctx context.Context, question []byte) (any, error) {
	var asked whatIfAsked
	in := json.NewDecoder(bytes.NewReader(question))
	in.DisallowUnknownFields()
	if err := in.Decode(&asked); err != nil {
		return nil, dashboard.Refuse(http.StatusBadRequest, fmt.Errorf("question: %w", err))
	}
	if asked.ThinkMs < 0 || asked.ThinkMs > 3.6e6 {
		return nil, dashboard.Refuse(http.StatusBadRequest, fmt.Errorf("thinkMs: must be from 0 to an hour, was %g", asked.ThinkMs))
	}
	if !d.playing.TryLock() {
		return nil, dashboard.Refuse(http.StatusServiceUnavailable, errors.New("another question is being played: ask again when it is done"))
	}
	defer d.playing.Unlock()
	d.recorded.AllThink(asked.Workload, time.Duration(asked.ThinkMs*float64(time.Millisecond)))
	answer, err := d.recorded.Ask(ctx, &asked.Change)
	if err != nil {
		return nil, dashboard.Refuse(http.StatusBadRequest, err)
	}
	return answer, nil
}
