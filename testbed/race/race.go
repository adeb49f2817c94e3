// Package race says whether the race detector is on, for tests that then take ten times as long.
// CI runs what they pass over without the race detector.
package race

import "testing"

// Skip passes over a long test in which nothing races.
func Skip(t testing.TB) {
	t.Helper()
	if On {
		t.Skip("long, and nothing in it races: make unraced runs it")
	}
}
