package replay

import (
	"testing"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// With the limit 0 there is no limit, the recorded one included.
func TestALimitOf0TakesTheRecordedOneAway(t *testing.T) {
	recorded := pricing.RateOf(3_000_000)
	for text, want := range map[string]pricing.Rate{"": recorded, "0": 0, "5": pricing.RateOf(5_000_000)} {
		var ask replayQuestion
		if text != "" {
			ask.limit = must.Get(parseLimit(text))(t)
		}
		in := &loop.Intent{Limit: recorded}
		must.Get(ask.replay(&cli.Env{}))(t).Change(in)
		if in.Limit != want {
			t.Errorf("--limit %q: decides with %v, want %v", text, in.Limit, want)
		}
	}
	for _, text := range []string{"-1", "x"} {
		if limit, err := parseLimit(text); err == nil {
			t.Errorf("--limit %s is taken for %v", text, *limit)
		}
	}
}
