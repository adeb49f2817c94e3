// Package dashboard asks an adapter.
package dashboard

import "github.com/plimsoll/plimsoll/podscaler/signals"
