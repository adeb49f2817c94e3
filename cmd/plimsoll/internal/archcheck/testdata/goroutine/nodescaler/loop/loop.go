// Package loop starts one outside run.go.
package loop

func act() { go act() }
