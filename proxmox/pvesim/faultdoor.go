package pvesim

import "github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"

// Fault is something that goes wrong, as one line says it. See FaultForms for what lines there are.
type Fault = faults.Fault

// FaultForm is one form of a fault, and what it does.
type FaultForm = faults.Form

// ParseFaults reads faults, one a line. What follows a # is a comment. All that is wrong is said at
// once, with the number of its line.
func ParseFaults(text string) ([]Fault, error) { return faults.Parse(text) }

// FaultForms are all forms of faults.
func FaultForms() []FaultForm { return faults.Forms() }

// FaultSelectors are what any fault can be given besides, to say when it strikes.
func FaultSelectors() []FaultForm { return faults.Selectors() }
