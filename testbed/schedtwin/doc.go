// Package schedtwin asks the plugins of Kubernetes' own scheduler whether pods go onto nodes, for
// worlds of which nodescaler/kube was asked the same, and compares. Both sides meet in a file that
// a test of nodescaler/kube writes; it is too large to be kept. It is a module of its own because
// the scheduler brings most of Kubernetes along.
package schedtwin
