// Package signals measures workloads: it fills the windows that pods are decided from, from
// Prometheus or from the pods' own metrics pages, and reads what pods use from the resource
// metrics API.
//
// Nothing is measured while a step waits for it. Prepare asks all sources for all workloads at
// once, in a handful of queries, and Read answers from memory with what the last Prepare
// brought. What could not be measured (no answer, none but NaN, several series where one was
// meant, samples that are too old) is unknown, with the reason beside it, and never 0; Findings
// carries the same to conditions and events.
package signals
