// Package vpa asks the recommender of Kubernetes' Vertical Pod Autoscaler what
// podscaler/rightsize was asked, of the same samples, and compares. Both sides meet in files
// that hold samples and recommendations, and that are checked there, too: testdata/twin.jsonl of
// podscaler/rightsize, and testdata/vpa.jsonl of convert, by the policies of manifests.
package vpa
