// Package nodescaler says which virtual machines should exist.
//
// It holds the words of node scaling: the Snapshot a policy looks at, the Plan it returns,
// the Action with its reasons, what fits where, and the invariants that every plan keeps. It
// has no opinion beyond feasibility; the opinions live in nodescaler/policy. A snapshot's Now
// is the only clock.
package nodescaler
