// Package pvesim serves.
package pvesim

import (
	"net/http"
	"os"
)

// Serve serves.
func Serve() error { return http.ListenAndServe(os.Args[1], nil) }
