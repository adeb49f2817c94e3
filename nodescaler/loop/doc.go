// Package loop is the one path from what is seen to what is done: Observe, Decide, Act.
//
// Ports.Observe asks the cluster and the machines what there is. Decide is a pure function of that
// observation, of what people want (Intent) and of the steps before (Memory). Its Step holds the
// replicas of every workload, the plan for machines, what is deferred and what is made known to
// other autoscalers, each with its reasons. Ports.Act carries the step out and waits for no
// machine. Memory.Learn takes in what came of it. Production, 'plimsoll plan', the simulator, the
// lab and the demo decide by nothing else.
package loop
