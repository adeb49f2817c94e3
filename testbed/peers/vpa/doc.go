// Package vpa asks the recommender of Kubernetes' Vertical Pod Autoscaler what
// podscaler/rightsize was asked, of the same samples, and compares. Both sides meet in a file:
// testdata/twin.jsonl of podscaler/rightsize holds samples and recommendations, and is checked
// there, too.
package vpa
