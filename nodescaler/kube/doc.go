// Package kube is the Kubernetes side of node scaling: it reads nodes, and deletes those whose
// machine is gone.
package kube
