package worlds

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
	table := must.Get(Ablate(t.Context(), 0))(t)
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
