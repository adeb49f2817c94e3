// Package podscaler is not described by its tests.
package podscaler
