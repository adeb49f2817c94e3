package pve

import "time"

// Lead is how long a machine took for a stage of its way from order to ready node.
type Lead struct {
	Pool  string
	Stage Stage
	Took  time.Duration
}

// Stage is a part of a machine's way from its order until its node is ready, or all of it.
type Stage string

// The stages, in their order, and the whole.
const (
	StageWait      Stage = "wait"      // until its clone is asked for: others are cloned first
	StageClone     Stage = "clone"     // until the clone is there
	StageConfigure Stage = "configure" // until disk, first-boot disc and configuration are made
	StageStart     Stage = "start"     // until it runs
	StageJoin      Stage = "join"      // until it is a node: boot and join
	StageReady     Stage = "ready"     // until the node is ready
	StageAll       Stage = "all"
	StageWake      Stage = "wake" // of a spare, until it is a node again; no part of the others
)

// Stages are all of them, the whole, and that of spares.
var Stages = []Stage{StageWait, StageClone, StageConfigure, StageStart, StageJoin, StageReady, StageAll, StageWake}

// milestone is when a step was reached that ends a stage and begins the next. It is not kept: of a
// machine whose stage was begun under another process, how long that took is not known.
type milestone struct {
	step Step
	at   time.Time
}

// stages are what ends with reaching a step, and the step that it began with.
var stages = map[Step]struct {
	from  Step
	stage Stage
}{
	StepClaimed: {StepOrdered, StageWait}, StepCloned: {StepClaimed, StageClone}, StepConfigured: {StepCloned, StageConfigure},
	StepStarted: {StepConfigured, StageStart}, StepJoined: {StepStarted, StageJoin},
}
