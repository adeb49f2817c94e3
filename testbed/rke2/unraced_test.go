//go:build !race

package rke2

const raced = false
