//go:build !race

package operator

const raced = false
