// Package hpa asks the controller of Kubernetes' HorizontalPodAutoscaler what the policy HPA and
// a Behavior were asked, on random pods and random series of wishes, and compares to the last pod.
package hpa
