// Package externalgrpc is the contract between cluster-autoscaler and a provider of machines that
// is a program of its own. Old and new releases of cluster-autoscaler speak different fields of it;
// this is all of them at once. The contract of its external expander is here too.
package externalgrpc

//go:generate go run ../../cmd/plimsoll/internal/protogen externalgrpc.proto
//go:generate go run ../../cmd/plimsoll/internal/protogen expander.proto
