// Package loop listens for signals.
package loop

import (
	"net/http"
	"os/signal"
)
