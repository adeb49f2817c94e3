// Command peers has Karpenter's scheduler and our joint policy plan machines for the same pending pods, shapes and
// prices, one after the other, and has the filters of Kubernetes' scheduler judge both plans. It is a module of its own
// because Karpenter and the scheduler bring most of Kubernetes along.
package main
