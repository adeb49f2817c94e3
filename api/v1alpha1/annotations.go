package v1alpha1

// What people may write beside AnnotationPaused, and in place of its true.
const (
	// AnnotationPausedUntil is when the pause ends by itself: 2026-03-01T12:00:00Z.
	AnnotationPausedUntil = "plimsoll.dev/paused-until"
	// AnnotationPausedReplicas fixes the replicas of a WorkloadAutoscaler at a number, regardless
	// of its bounds. It needs no AnnotationPaused; with one that is true even these are left as
	// they are.
	AnnotationPausedReplicas = "plimsoll.dev/paused-replicas"
	// AnnotationPausedBy is who said so, for people who wonder.
	AnnotationPausedBy = "plimsoll.dev/paused-by"

	// AnnotationResumed is when a person last resumed a VMPool: 2026-03-01T12:00:00Z. Machines that
	// were held before then because too many would have gone undrained are let go, and failures
	// count no more: the pool takes orders again, and hosts that rest get machines.
	AnnotationResumed = "plimsoll.dev/resumed"

	// AnnotationRolloutResumed is when a person last had a rollout tried anew that had stopped or
	// was rolled back: 2026-03-01T12:00:00Z. It has no effect on one that stops later.
	AnnotationRolloutResumed = "plimsoll.dev/rollout-resumed"

	// PauseUp and PauseDown, as the value of AnnotationPaused, pause one direction: no replica or
	// machine more, or none less.
	PauseUp   = "up"
	PauseDown = "down"
)
