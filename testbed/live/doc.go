// Package live is what the worlds share that go by the clock and have a Kubernetes in them. It says
// what an experiment's workload is there, who sends it requests, and how a run is scored from what
// k6 saw of the answers and from the journal that Plimsoll kept.
package live
