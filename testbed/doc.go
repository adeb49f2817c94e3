// Package testbed runs experiments: a file says in which world, under which load and by which
// policies, and the results say what it cost and what the users got.
//
// The worlds run the code that decides in production. Every policy of a trial has the same
// luck: chance is derived from the experiment's seed, the trial and the level of load, never
// from the policy. The same file and seed give the same results, byte for byte, however many
// processors share the work.
package testbed
