// Package kubeport holds the cluster port to a real control plane: its tests are all there is of
// it.
package kubeport
