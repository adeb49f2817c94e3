package forecast

// QLearning expects what the pods could serve that a Q-learner wants for the next period. It
// learns what adding a pod, taking one away or leaving them is worth, by the load and by how many
// there are, from what would have been best afterwards. It needs a warm-up of a day, or a history
// of that length.
//
// It is here to be compared with: the HPA+ paper races it against AR, LSTM and HTM. All that it
// knows of the past is the level of the last value, and it moves by a pod a period. So it loses by
// the width of a pod on a smooth load and by the pods that it is behind on a steep one. A rule that
// goes a pod a period towards the last value is as good or better. It loses by most where the
// load leaves what it was trained on: there it tries about for a day, and never expects more than
// the training's highest.

// QLearning is the settings of the QLearning forecaster.
type QLearning struct {
	// Levels is how many the load is distinguished by; 24, unless set.
	Levels int `json:"levels,omitempty"`
	// Pods is how many take the highest load of the training; 32, unless set.
	Pods int `json:"pods,omitempty"`
	// Episodes is how often the history is played in the training; 60, unless set.
	Episodes int `json:"episodes,omitempty"`
	// Rate is the least that a period counts for against what was learnt before; 0.02, unless set.
	Rate float64 `json:"rate,omitempty"`
	// Discount is what a reward is worth a period later; 0.5, unless set.
	Discount float64 `json:"discount,omitempty"`
	// Explore is how much of the training's first episode is tried at random; 0.3, unless set. It
	// falls from episode to episode, and is 0 on line.
	Explore float64 `json:"explore,omitempty"`
	// Shortage is how many pods too many a missing one counts for; 1, unless set.
	Shortage float64 `json:"shortage,omitempty"`
	// Warmup is how many periods have to pass before it is trained on them; 1440, unless set: a
	// day of minutes.
	Warmup int `json:"warmup,omitempty"`
	// Seed is where the trials begin; 1, unless set. The same one makes the same forecasts.
	Seed uint64 `json:"seed,omitempty"`
}

func init() {
	register("QLearning", "expects what the pods could serve that a Q-learner wants next.",
		func(s Spec) (Model, error) { return newPodLearner("qLearning", settings(s.QLearning), false) })
}

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
