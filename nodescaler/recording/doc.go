// Package recording keeps what each step was decided by, so that it can be decided again: by the
// same rules, which must come to the same, or by another policy, other prices or another limit.
//
// A recording is a series of segments. A segment begins with a full picture of what was observed
// and wanted, and goes on with what changed from step to step; each can be read without those
// before. What policies remember is in no segment: the same decisions come out from the first step
// of a term of leadership on, which a recording marks.
package recording
