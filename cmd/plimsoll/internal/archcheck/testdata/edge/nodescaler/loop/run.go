// Package loop listens for signals, which run.go may not.
package loop

import (
	"net/http"
	"os/signal"
)
