// Package env is part of cmd.
package env

// Env is everything.
var Env struct{}
