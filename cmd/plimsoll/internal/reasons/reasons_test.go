package reasons

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// vocabulary is where codes are declared, with the names of the constants that are codes.
var vocabulary = map[string]*regexp.Regexp{
	"podscaler":                        prefixed,
	"podscaler/rightsize":              prefixed,
	"podscaler/signals":                prefixed,
	"nodescaler":                       regexp.MustCompile(`^[A-Z][a-z]+[A-Z]`),
	"nodescaler/approval":              prefixed,
	"nodescaler/loop":                  prefixed,
	"nodescaler/kube":                  prefixed,
	"nodescaler/kube/internal/targets": prefixed,
	"api/v1alpha1":                     prefixed,
	"cmd/plimsoll/internal/operator":   prefixed,
	"proxmox/placement":                prefixed,
	"proxmox/pve":                      prefixed,
	"proxmox/pvecode":                  regexp.MustCompile(`^[A-Z]`),
}

var (
	prefixed = regexp.MustCompile(`^(Reason|reason|Code|Finding|Condition|Event)`)
	camel    = regexp.MustCompile(`^[A-Z][A-Za-z]*[a-z][A-Za-z]*$`)
	actions  = []string{"Buy", "Cordon", "Uncordon", "Evict", "DeletePod", "Return", "Stash", "Wake", "Reboot"}
)

// declared are the codes that the product declares, with where. Those of nodescaler.Check name
// what no plan may do, and are never shown.
func declared(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for dir, names := range vocabulary {
		for _, file := range must.Get(filepath.Glob("../../../../" + dir + "/*.go"))(t) {
			if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, "/nodescaler/check.go") {
				continue
			}
			parsed := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
			ast.Inspect(parsed, func(n ast.Node) bool {
				s, is := n.(*ast.ValueSpec)
				if !is || s.Type != nil {
					return true
				}
				for i, x := range s.Values {
					lit, is := x.(*ast.BasicLit)
					if !is || lit.Kind != token.STRING || !names.MatchString(s.Names[i].Name) {
						continue
					}
					if code, _ := strconv.Unquote(lit.Value); camel.MatchString(code) {
						all[code] = dir + "." + s.Names[i].Name
					}
				}
				return true
			})
		}
	}
	for _, action := range actions {
		all[action] = "nodescaler.Kind"
	}
	return all
}

func TestEveryCodeIsExplained(t *testing.T) {
	codes, there := Codes(), declared(t)
	if len(there) < 300 {
		t.Errorf("only %d codes were found: what is looked for is not what is written", len(there))
	}
	for code, where := range there {
		if !slices.Contains(codes, code) {
			t.Errorf("%s (%s) is not in table.txt: add the line \"%s | what is so | what to do\" below its group", code, where, code)
		}
	}
	for _, code := range codes {
		if there[code] == "" {
			t.Errorf("%s is in table.txt and no constant of the product: remove the line", code)
		}
	}
	for i, code := range codes {
		if slices.Contains(codes[:i], code) {
			t.Errorf("%s is in table.txt twice", code)
		}
	}
}

func TestSentencesAreWhole(t *testing.T) {
	for _, r := range All() {
		if r.Group == "" || !strings.HasSuffix(r.Meaning, ".") || !strings.HasSuffix(r.Do, ".") {
			t.Errorf("%s: must have a group, and two sentences that end with a point: %+v", r.Code, r)
		}
	}
}

func TestCodesAreFoundInAnyCase(t *testing.T) {
	if r, found := Find("poolatmax"); !found || r.Code != "PoolAtMax" {
		t.Errorf("found %+v, %v", r, found)
	}
	if r, found := Find("Nonsense"); found {
		t.Errorf("found %+v", r)
	}
}

func TestReasonsPage(t *testing.T) { golden.Compare(t, "../../../../docs/reasons.md", Page()) }
