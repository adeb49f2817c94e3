package pvesim

import (
	"testing"

	"pgregory.net/rapid"
)

// What is encoded quickly reads as encoding/json writes it.
func TestAnswersAreEncodedAsJSON(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z<>&"\\]*`))
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(text, func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return n }),
		rapid.Map(rapid.Int64(), func(n int64) any { return n }), rapid.Map(rapid.Float64Range(-1e9, 1e9), func(x float64) any { return x }),
		rapid.Map(rapid.Bool(), func(is bool) any { return is }), rapid.Map(rapid.SliceOf(text), func(l []string) any { return l }),
	)
	value := leaf
	for range 3 {
		inner := value
		value = rapid.OneOf(
			leaf, rapid.Map(rapid.SliceOf(inner), func(l []any) any { return l }),
			rapid.Map(rapid.MapOf(text, inner), func(m map[string]any) any { return m }),
		)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := value.Draw(t, "value")
		if got, want := string(encodeJSON(v)), string(encodeOther(v)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
