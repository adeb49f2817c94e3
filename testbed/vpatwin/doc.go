// Package vpatwin asks the recommender of Kubernetes' Vertical Pod Autoscaler what
// podscaler/rightsize was asked, of the same samples, and compares. Both sides meet in a file:
// testdata/twin.jsonl of podscaler/rightsize holds samples and recommendations, and is checked
// there, too. It is a module of its own because the recommender brings Kubernetes' clients along,
// in versions of its own.
package vpatwin
