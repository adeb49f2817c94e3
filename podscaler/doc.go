// Package podscaler says how many replicas a workload needs, from a window of observations
// and the present time.
//
// A Policy proposes; a Scaler asks it when its run period has come, then applies the guards
// every workload has and returns a Decision that names what was proposed, what limited it and
// why. Nothing here reads a clock or a socket: the View holds the time and everything that was
// measured, and what could not be measured is unknown, which never shrinks anything.
//
// The guards are in this order, and each that bound a decision is among its reasons:
//
//  1. A pause that fixes the replicas: no other client is asked, the bounds included.
//  2. Replicas of 0 that another client has set: they stay.
//  3. The bounds, moved by the schedules that are open: what is out of them is put right at once.
//  4. The policy, which is not shown the surge of a rollout.
//  5. The fallback, once the policy has long not known; otherwise nothing changes.
//  6. The behavior's windows.
//  7. The behavior's step limits, and the bounds again.
//  8. What holds a change back, of which all are asked: too few ready replicas (both ways), a
//     rollout, suspect callers and signals that were missing (on the way down), the cool-down
//     (both ways).
//  9. A pause of one direction, which holds the bounds' corrections, too.
package podscaler
