//go:build race

package operator

const raced = true
