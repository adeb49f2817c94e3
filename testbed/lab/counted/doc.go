// Package counted plays counted loads in a lab: real Deployments that the control plane's own
// HorizontalPodAutoscaler scales, or a scaler of testbed/replay by what was measured, under
// requests over HTTP.
//
// A minute of the load takes a Period. Requests wait before the pods as at an ingress that hands
// each pod a few at a time; those that still wait when their period ends are lost.
package counted
