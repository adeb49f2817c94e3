// Package deploy holds the manifests that the binary prints.
package deploy

import "embed"

// ClusterAutoscaler is upstream's cluster-autoscaler with Plimsoll as its provider, as templates.
//
//go:embed cluster-autoscaler
var ClusterAutoscaler embed.FS
