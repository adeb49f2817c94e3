// Package podscaler says how many replicas a workload needs, from a window of observations
// and the present time.
//
// A Policy proposes; a Scaler asks it when its run period has come, then applies the guards
// every workload has (bounds, step limits, stabilisation, cool-down) and returns a Decision
// that names what was proposed, what limited it and why. Nothing here reads a clock or a
// socket: the View holds the time and everything that was measured, and what could not be
// measured is unknown, which never shrinks anything.
package podscaler
