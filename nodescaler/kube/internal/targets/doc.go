// Package targets finds what each WorkloadAutoscaler scales, and what forbids to write to it: that
// it has no scale, that another autoscaler scales it, or that another client keeps changing it.
package targets
