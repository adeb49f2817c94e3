package planner

import "github.com/plimsoll/plimsoll/nodescaler"

// turn is what the parts of a scan share.
type turn struct {
	*Draft
	*memory
	rules  *Rules
	places *places
	coming []*nodescaler.Machine // expected to become nodes
	busy   int                   // nodes and machines on their way out
}
