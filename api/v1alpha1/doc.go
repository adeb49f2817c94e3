// Package v1alpha1 is Plimsoll's API in Kubernetes: a WorkloadAutoscaler says how many pods a
// workload is to have, a VMPool which virtual machines may exist for them, and a PriceBook what
// those cost.
//
// The types are what manifests say and no more. These types can decode everything that the rules in
// the CRDs let pass: an object that could not be decoded would stop the watch of its kind. The same
// holds for integers, which is why each has a bound that its Go type can hold.
//
// Decimals are written as whole numbers or in quotes ("0.0316"), durations as in Go with the units
// h, m, s and ms (1m30s), sizes with their unit (8Gi is 2³⁰ bytes, 8GB is 10⁹).
//
// +kubebuilder:object:generate=true
// +groupName=plimsoll.dev
package v1alpha1

//go:generate go run ../../cmd/plimsoll/internal/policygen ../..
//go:generate go run sigs.k8s.io/controller-tools/cmd/controller-gen@v0.23.0 object crd:crdVersions=v1 paths=. output:crd:dir=../../deploy/crds
