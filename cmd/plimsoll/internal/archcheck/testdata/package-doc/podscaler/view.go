//go:build linux

package podscaler
