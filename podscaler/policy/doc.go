// Package policy holds the pod policies: one file each, which says at its head what the idea
// is, what it needs to know, and when it loses.
//
// A file registers its policy under the name that people give it; nothing else lists them. A
// policy proposes a number of replicas and no more than that: bounds, step limits, windows and
// cool-downs are the Scaler's, and the same for all, but for those that a method is made of, such
// as a watermark's steps. What it cannot know it does not guess: an unknown input makes an
// unknown proposal.
package policy
