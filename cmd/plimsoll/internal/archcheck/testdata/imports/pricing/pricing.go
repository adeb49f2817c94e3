// Package pricing looks up.
package pricing

import "github.com/plimsoll/plimsoll/podscaler"
