// Command peers has Karpenter's scheduler and our joint policy plan machines for the same pending
// pods, shapes and prices, one after the other, and has the filters of Kubernetes' scheduler judge
// both plans. The packages below it compare other parts of ours with what others wrote. They are a
// module of their own because what others wrote brings most of Kubernetes and Prometheus along.
package main
