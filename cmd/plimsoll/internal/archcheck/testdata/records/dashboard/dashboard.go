// Package dashboard holds a port.
package dashboard

import record "github.com/plimsoll/plimsoll/nodescaler/loop"

// Page shows a step, and could scale.
type Page struct {
	Step    record.Step
	Cluster record.Cluster
}
