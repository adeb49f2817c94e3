package hpaplus

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// recorded are the windows of the page.
var recorded = []string{"nasa_jul95.csv@9,16", "nasa_aug95.csv@3,10,17,24", "wc98_may.csv@0,7,14,21"}

func windows(t *testing.T) (all []Source) {
	t.Helper()
	for _, given := range recorded {
		sources, err := Sources(given, func(name string) (*replay.Trace, error) {
			data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "shared", "traces", name))
			if err != nil {
				return nil, err
			}
			return replay.ReadCSV(name, bytes.NewReader(data))
		})
		if err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("the recorded traces are not there: %v", err)
			}
			t.Skipf("NOT TRIED, for the recorded traces are not there: %v", err)
		}
		all = append(all, sources...)
	}
	return all
}

// The page's table of what the paper's inputs are worth.
func TestThePapersInputsOnRecordedDays(t *testing.T) {
	race.Skip(t)
	if testing.Short() {
		t.Skip("it trains sixty networks")
	}
	e := must.Get(Parse(must.Get(testbed.File("hpaplus-models"))(t)))(t)
	r := must.Get(Run(t.Context(), e, Options{Traces: windows(t), Rows: []string{"ar", "dailylstm", "lstm"}}))(t)
	measures := []string{"r2Forward", "r2"}
	table := "| window | `AR` forward | `LSTM` forward | `DailyLSTM` forward | `AR` | `LSTM` | `DailyLSTM` |\n|---|--:|--:|--:|--:|--:|--:|\n"
	line := func(name string, of func(Over) testbed.Number) {
		table += "| " + name
		for _, m := range measures {
			for _, row := range []string{"ar", "lstm", "dailylstm"} {
				for i := range r.Summary {
					if r.Summary[i].Row == row {
						table += fmt.Sprintf(" | %.2f", float64(of(r.Summary[i].Measures[m])))
					}
				}
			}
		}
		table += " |\n"
	}
	for _, trace := range r.Traces {
		line(trace, func(o Over) testbed.Number { return o.Traces[trace].Mean })
	}
	line("median", func(o Over) testbed.Number { return o.Median })

	const page, begin, end = "../../../docs/hpaplus.md", "<!-- inputs -->\n", "<!-- end -->"
	text := string(must.Get(os.ReadFile(page))(t))
	before, rest, is := strings.Cut(text, begin)
	_, after, ends := strings.Cut(rest, end)
	if !is || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	golden.Compare(t, page, before+begin+table+end+after)
}
