//go:build !race

package testbed

const raced = false
