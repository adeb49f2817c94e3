package operator

import (
	"log/slog"
	"regexp"
	"time"
)

// trouble is what went wrong with steps. What goes on for long is logged now and then, not at every
// step.
type trouble struct {
	what string
	at   time.Time
}

// tellEvery is how often the same trouble is logged.
const tellEvery = time.Minute

var digits = regexp.MustCompile(`[0-9]+`)

func (t *trouble) tell(log *slog.Logger, err error, now time.Time) {
	what := ""
	if err != nil {
		what = digits.ReplaceAllString(err.Error(), "")
	}
	switch {
	case err == nil && t.what != "":
		log.Info("steps are made again")
	case err != nil && (what != t.what || now.Sub(t.at) >= tellEvery):
		log.Warn("step", "error", err)
		t.at = now
	}
	t.what = what
}
