// Package charts holds charts and manifests to a real control plane: its tests are all there is of
// it.
package charts
