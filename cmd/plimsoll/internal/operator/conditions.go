package operator

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
)

// conditions is an object's conditions while they are put together.
type conditions struct {
	list       *[]metav1.Condition
	generation int64
	now        time.Time
}

// set states a condition. Its time is that of the last change of its status.
func (c conditions) set(kind string, status metav1.ConditionStatus, reason, format string, args ...any) {
	meta.SetStatusCondition(c.list, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message(fmt.Sprintf(format, args...)),
		ObservedGeneration: c.generation, LastTransitionTime: metav1.NewTime(c.now),
	})
}

// maxMessage is what the API takes as a condition's message.
const maxMessage = 32768

func message(text string) string { return text[:min(len(text), maxMessage)] }

// Reasons of conditions that the API does not name itself. Those that a HorizontalPodAutoscaler has
// for the same thing are its own.
const (
	reasonSucceededGetScale = "SucceededGetScale"
	reasonSucceededRescale  = "SucceededRescale"
	reasonReadyForNewScale  = "ReadyForNewScale"
	reasonFailedUpdateScale = "FailedUpdateScale"
	reasonSuccessfulRescale = "SuccessfulRescale"

	reasonStarting       = "Starting"       // nothing was decided yet
	reasonAsMeasured     = "AsMeasured"     // all signals were measured
	reasonNoConflict     = "NoConflict"     // no other client scales it
	reasonRepairing      = "Repairing"      // unhealthy nodes are replaced
	reasonDisrupting     = "Disrupting"     // machines are replaced, as the pool asks for it
	reasonUpToDate       = "UpToDate"       // each machine is what its pool would make now
	reasonNotBraked      = "NotBraked"      // no machine waits that is to go without a drain
	reasonNotPaused      = "NotPaused"      // it is not paused
	reasonWithinTarget   = "WithinTarget"   // the objective, or the budget, is kept
	reasonAboveTarget    = "AboveTarget"    // it is not
	reasonFastBurn       = "FastBurn"       // an error budget will be spent within days
	reasonSlowBurn       = "SlowBurn"       // or within weeks
	reasonWithinBudget   = "WithinBudget"   // neither
	reasonNotMeasured    = "NotMeasured"    // that is not known
	reasonNoneAdvised    = "NoneAdvised"    // no spares would have paid that are not kept
	reasonAllPlaced      = "AllPlaced"      // no pod waits that no machine would help
	reasonMachinesComing = "MachinesComing" // machines are on their way
	reasonScaledToZero   = "ScaledToZero"   // by a decision
	reasonNotAtZero      = "NotAtZero"
	reasonSwitchedOff    = "SwitchedOff" // by a person, where other zeros are woken
	reasonNoneComing     = "NoMachinesComing"
	reasonPricesAgree    = "PricesAgree"
	reasonAsRegistered   = "AsRegistered"  // a registry knows what is ready
	reasonPolicyDecides  = "PolicyDecides" // and not the fallback
	reasonServerToken    = "ServerToken"   // machines are given the token that servers join with
	reasonNotAsked       = "NotAsked"      // the object asks for it no more
	reasonPlannedFor     = "PlannedFor"    // all its pods count when machines are planned
	reasonNoneHeld       = "NoneHeld"      // every machine may be taken down
)

// bad reports whether a condition is one that an administrator should see to.
func bad(c *metav1.Condition) bool {
	switch c.Type {
	case v1alpha1.ConditionMachinesHeld:
		return c.Status == metav1.ConditionTrue && !wanted(c.Reason)
	case v1alpha1.ConditionRolledOut:
		return c.Status == metav1.ConditionFalse && slices.Contains(rolloutFailed, c.Reason)
	case v1alpha1.ConditionReady, v1alpha1.ConditionMetricsHealthy, v1alpha1.ConditionAbleToScale:
		return c.Status == metav1.ConditionFalse
	}
	return c.Status == metav1.ConditionTrue
}
