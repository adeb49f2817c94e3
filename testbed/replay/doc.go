// Package replay plays a counted load, minute by minute, against replicas that a scaler sets, and
// says what was lost and what it took. It is the world in which HPA+ was published: an
// application's profile says what so many pods serve, and what they cannot serve is lost.
//
// A trace's counts become mean requests a second of their minutes. The pods of a minute are set by
// what was known when the one before ended; they are there at once, and all at the same time. What
// happens within a minute, how long answers take and what machines the pods run on is the business
// of testbed/sim, which plays every request where this plays a number.
//
// Nothing here reads a clock or a file, and the same trace, kind, setting and seed give the same
// numbers. A run holds one minute at a time, so that years of them are no matter.
package replay
