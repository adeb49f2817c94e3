// Package loop starts one.
package loop

func act() { go act() }
