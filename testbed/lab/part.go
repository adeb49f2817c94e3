package lab

import (
	"context"
	"time"
)

// Part is something a lab is made of besides its control plane: a process of its own, or a
// server in the process that called Up.
type Part interface {
	// Name distinguishes the part from the others of its lab, in messages, as a folder and as a log
	// file: lower-case letters, digits and hyphens.
	Name() string
	// Start starts the part and returns when it answers. The context is for starting alone:
	// what was started goes on until its Stop. After a Stop, Start is called again if the part is
	// to come back, on the same lab and with the same data; it should then answer where it did.
	Start(ctx context.Context, l *Lab) (*Running, error)
}

// Builder is a Part that needs programs, which are built before anything is started.
type Builder interface {
	Tools() []Tool
}

// Running is a part that answers.
type Running struct {
	Endpoints []Endpoint // where it can be reached
	PID       int        // of a process of its own, or 0
	// Ended, if the part can end by itself, gets the reason when it does, and is closed after that
	// and when the part was stopped.
	Ended <-chan error
	// Stop ends the part and returns when nothing of it is left. The context says how long it may
	// take to do so in good order.
	Stop func(ctx context.Context) error
	// Kill, if there is one, ends the part as a crash would. It returns when nothing is left.
	Kill func() error
}

// Endpoint is one address that a part can be reached at.
type Endpoint struct {
	Name string `json:"name"` // what it is for, such as api or metrics
	URL  string `json:"url"`
}

// State is how far a part has come.
type State string

// The states of a part.
const (
	StateWaiting  State = "waiting"  // for those before it
	StateStarting State = "starting" // and not answering yet
	StateUp       State = "up"
	StateStopped  State = "stopped" // it was asked to
	StateEnded    State = "ended"   // it was not
)

// Status is a part as it is seen from outside.
type Status struct {
	Name      string     `json:"name"`
	State     State      `json:"state"`
	PID       int        `json:"pid,omitempty"`
	Since     time.Time  `json:"since"` // of the state
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	Fault     string     `json:"fault,omitempty"` // why it has ended
}
