package forecast

// Spec names a forecaster and carries the settings of those that have any. Only the block of
// the named forecaster counts; a missing one means its defaults, as does a setting that is 0.
type Spec struct {
	// Name is what the forecaster is called among others; its type, unless set.
	Name        string            `json:"name,omitempty" yaml:"name,omitempty"`
	Type        string            `json:"type" yaml:"type"`
	Seasonal    *Seasonal         `json:"seasonal,omitempty" yaml:"seasonal,omitempty"`
	AR          *AR               `json:"ar,omitempty" yaml:"ar,omitempty"`
	HoltWinters *HoltWinters      `json:"holtWinters,omitempty" yaml:"holtWinters,omitempty"`
	Theta       *Theta            `json:"theta,omitempty" yaml:"theta,omitempty"`
	Ridge       *Ridge            `json:"ridge,omitempty" yaml:"ridge,omitempty"`
	QLearning   *QLearning        `json:"qLearning,omitempty" yaml:"qLearning,omitempty"`
	SARSA       *SARSA            `json:"sarsa,omitempty" yaml:"sarsa,omitempty"`
	HTM         *HTM              `json:"htm,omitempty" yaml:"htm,omitempty"`
	LSTM        *LSTM             `json:"lstm,omitempty" yaml:"lstm,omitempty"`
	Ensemble    *EnsembleSettings `json:"ensemble,omitempty" yaml:"ensemble,omitempty"`
	Race        *RaceSettings     `json:"race,omitempty" yaml:"race,omitempty"`
}
