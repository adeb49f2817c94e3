// Package disruption has Karpenter's own controllers decide about a fleet of ours: they are one
// more node policy, which lives the weeks that ours lives.
package disruption
