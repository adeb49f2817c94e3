// Package timing draws.
package timing

// Check checks.
func Check() error { return nil }
