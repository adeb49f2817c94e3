//go:build !race

package kube

const raced = false
