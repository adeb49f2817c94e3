// Package sim starts one.
package sim

func play() { go play() }
