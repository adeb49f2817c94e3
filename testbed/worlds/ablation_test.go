package worlds

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/must"
	"github.com/plimsoll/plimsoll/testbed/race"
)

var (
	whole  = flag.Bool("whole", false, "play joint-ablation, and compare it with docs/joint-results.md")
	update = flag.Bool("update", false, "play joint-ablation, and write it into docs/joint-results.md")
)

const jointPage = "../../docs/joint-results.md"

// TestJointAblation plays joint with each of its mechanisms switched off, which takes minutes,
// where it is asked to. The table is between two lines of the page.
func TestJointAblation(t *testing.T) {
	if race.Skip(t); !*whole && !*update {
		t.Skip("takes 150 s of CPU: with -whole or -update")
	}
	table := must.Get(ablate(t.Context(), 0))(t)
	page := string(must.Get(os.ReadFile(jointPage))(t))
	found := regexp.MustCompile(`(?s)(<!-- joint-ablation -->\n)(.*?)(<!-- end -->)`).FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("%s has no place for it", jointPage)
	}
	line := func(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
	came := line(table.Head) + line([]string{"---", "---", "--:", "--:", "--:", "--:", "--:", "--:"})
	for _, row := range table.Rows {
		came += line(row)
	}
	if *update {
		page = strings.Replace(page, found[0], found[1]+came+found[3], 1)
		must.Do(t, os.WriteFile(jointPage, []byte(page), 0o644))
	} else if diff := cmp.Diff(came, found[2]); diff != "" {
		t.Errorf("-what comes out +what the page says\n%s", diff)
	}
}

// ablated are the worlds in which mechanisms of joint are switched off: drawn ones that take little
// time, of odd seeds, and scenarios that were made for one mechanism or another.
var ablated = struct {
	seeds []uint64
	named []named
}{
	[]uint64{1, 3, 5, 9, 13, 29, 43, 51, 69, 75, 83, 87, 91, 105, 123, 129, 137, 145, 151, 159, 161, 169, 179, 195},
	[]named{
		{"six-scenarios", []string{"ramp", "flash", "bursty"}},
		{"joint-open", []string{"ramps", "spikes", "wave"}},
		{"joint-wrong-worlds", []string{"think-none", "less-capacity", "late-metrics"}},
		{"joint-unreachable", []string{"takes-200ms", "waits-2s", "waits-10s"}},
		{"joint-cold", []string{"attack"}},
	},
}

// named are scenarios of an experiment that comes with the program.
type named struct {
	experiment string
	scenarios  []string
}

// tally is what joint comes to: the geometric mean of costs, and means of minutes over and late
// requests.
type tally struct{ cost, over, late, n float64 }

func (s *tally) add(r *testbed.Results) {
	for i := range r.Runs {
		t := &r.Runs[i]
		s.cost += math.Log(float64(t.CostUnits))
		s.over += float64(t.SLOViolationMinutes)
		s.late += float64(t.LateShare + t.FailedShare)
		s.n++
	}
}

// ablate plays joint as it is, and with each of its mechanisms switched off, one at a time. The
// rows say how many times the cost comes out, how many minutes over the objective and how many
// points of late requests more, on the mean of drawn worlds and of named scenarios.
func ablate(ctx context.Context, parallel int) (testbed.Table, error) {
	t := testbed.Table{
		Head: []string{"off", "what it does", "cost, drawn", "minutes", "late", "cost, named", "minutes", "late"}, Left: 2,
	}
	var whole [2]tally
	all := append([]podpolicy.JointMechanism{{Name: "nothing"}}, podpolicy.JointMechanisms...)
	for i := range all {
		without := all[i].Name
		if i == 0 {
			without = ""
		}
		sums, err := play(ctx, without, parallel)
		if err != nil {
			return t, err
		}
		row := []string{all[i].Name, all[i].Does}
		for j, s := range sums {
			if i == 0 {
				whole[j] = s
				row = append(row, "1", fmt.Sprintf("%.1f", s.over/s.n), percent(testbed.Number(s.late/s.n)))
				continue
			}
			w := whole[j]
			row = append(row, fmt.Sprintf("%.3f", math.Exp((s.cost-w.cost)/w.n)), fmt.Sprintf("%+.1f", (s.over-w.over)/w.n),
				fmt.Sprintf("%+.2f", 100*(s.late-w.late)/w.n))
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

// play plays joint without a mechanism, in the worlds that are drawn and in those that are named.
func play(ctx context.Context, without string, parallel int) (sums [2]tally, err error) {
	one := func(to *tally, e *testbed.Experiment, o testbed.Options) error {
		i := slices.IndexFunc(e.Policies, func(p testbed.Policy) bool { return p.Name == about })
		e.Policies[i].Pods.Joint = &podpolicy.Joint{Without: without}
		o.Policies, o.Trials, o.Parallel = []string{about}, 1, parallel
		r, err := testbed.Run(ctx, e, o)
		if err != nil {
			return fmt.Errorf("%s without %s: %w", e.Title, without, err)
		}
		to.add(r)
		return nil
	}
	for _, seed := range ablated.seeds {
		e, err := Draw(seed)
		if err != nil {
			return sums, err
		}
		if err := one(&sums[0], e, testbed.Options{}); err != nil {
			return sums, err
		}
	}
	for _, n := range ablated.named {
		text, err := testbed.File(n.experiment)
		if err != nil {
			return sums, err
		}
		e, err := testbed.Parse(text)
		if err != nil {
			return sums, err
		}
		if err := one(&sums[1], e, testbed.Options{Scenarios: n.scenarios}); err != nil {
			return sums, err
		}
	}
	return sums, nil
}
