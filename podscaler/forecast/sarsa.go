package forecast

// SARSA expects what QLearning does, and learns it in another way: what an action is worth goes by
// what the learner does after it, its trials among that, and not by the best that it could do. So
// it keeps away from where a trial would do harm, for as long as there are trials: on line there
// are none. It needs what QLearning needs, and loses where that does.

// SARSA is the settings of the SARSA forecaster.
type SARSA QLearning

func init() {
	register("SARSA", "expects what the pods could serve that a SARSA learner wants next.",
		func(s Spec) (Model, error) { return newPodLearner("sarsa", QLearning(settings(s.SARSA)), true) })
}
