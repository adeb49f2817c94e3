// Package plane is the lab's traffic. Every pod that runs is a queue that serves requests in real
// time at the CPU of its limit, without burning any. A balancer is before the pods of each
// application, as Envoy's would.
//
// A pod becomes an application's by its annotations; see AnnotationDemand. Requests are answered
// over HTTP at /apps/NAMESPACE/WORKLOAD/ when a pod that obeys the simulator's own law (package
// serving) would have answered them. It shows what the pods did as Istio does, on /metrics, and
// what CPU they used as metrics-server does, by an aggregated API, so that the
// HorizontalPodAutoscaler scales them as it would scale real ones.
package plane
