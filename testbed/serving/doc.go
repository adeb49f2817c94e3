// Package serving is the law by which a pod serves requests, and by which a balancer finds the pod
// for one: processor sharing of a CPU quota among a limited number of requests, the others waiting
// in order of arrival.
//
// The simulated world moves it by its event heap and the lab's traffic plane by timers; that both
// have it from here is why their figures can be held against each other.
package serving
