// Package deploy holds the manifests that the binary prints.
package deploy

import "embed"

//go:generate go run -C tools ./render

// ClusterAutoscaler is upstream's cluster-autoscaler with Plimsoll as its provider, as templates.
//
//go:embed cluster-autoscaler
var ClusterAutoscaler embed.FS

// Loader is something to scale, as templates.
//
//go:embed loader
var Loader embed.FS

// Manifests are what the charts render: the kinds in crds.yaml, and Plimsoll itself by mode.
//
//go:embed manifests
var Manifests embed.FS
