// Package notify reports over HTTP what happens to the objects that Plimsoll works by.
//
// There is one notice when something becomes true that needs attention, and one when it has been
// over for a while. Alerts keeps account of that, even if a condition is stated many times in
// between, and forgets nothing that matters when it starts anew. A Sender brings notices to
// receivers and never waits for one: a receiver that does not answer is tried again a few times,
// and then given up on, and the others do not notice.
package notify

import "time"

// Status is what has become of a condition.
type Status string

// What has become of a condition, or what was done.
const (
	Firing   Status = "Firing"   // it needs attention
	Resolved Status = "Resolved" // it is over
	Scaled   Status = "Scaled"   // replicas were changed
)

// Notice is one thing that a receiver gets.
type Notice struct {
	Status    Status `json:"status"`
	Kind      string `json:"kind"`                // WorkloadAutoscaler or VMPool
	Namespace string `json:"namespace,omitempty"` // of a WorkloadAutoscaler
	Name      string `json:"name"`
	// The type of the condition that is firing or resolved.
	Condition string    `json:"condition,omitempty"`
	Reason    string    `json:"reason"` // a stable code
	Text      string    `json:"text"`   // a sentence with the numbers
	Time      time.Time `json:"time"`
}

// object names what the notice is about.
func (n *Notice) object() string {
	if n.Namespace == "" {
		return n.Kind + " " + n.Name
	}
	return n.Kind + " " + n.Namespace + "/" + n.Name
}
