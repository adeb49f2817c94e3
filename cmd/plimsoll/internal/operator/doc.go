// Package operator runs Plimsoll in a cluster. It reads WorkloadAutoscalers, VMPools and
// PriceBooks, makes of them what the loop works on, lets the loop make its steps while it leads,
// and puts what came of each step back into the objects' statuses, into events and into metrics.
//
// A step is: read the objects (desk), configure loop, signals and fleet by them, let the loop
// observe, decide and act, and publish. What is wrong with an object becomes a condition of that
// object with a reason, and a hold: the rest goes on without it.
package operator
