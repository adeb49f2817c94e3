package operator

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/reasons"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// The product's vocabulary: every code of a reason, condition, event and action, as package reasons
// has them, whose own test finds each that is declared. Each is heard in
// the tests of this package, in which the production path goes from manifests to statuses, or it
// is listed in testdata/unheard.txt. Codes that are heard by chance alone, fewer than surelyHeard
// times, are listed too: another change would silence them. Scenes are directed to have codes said
// that chance would not.

var updateUnheard = flag.Bool("unheard", false, "write testdata/unheard.txt anew")

const surelyHeard = 4

const unheardFile = "testdata/unheard.txt"

var heard struct {
	sync.Mutex
	codes map[string]int
}

func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run").Value.String(); (run == "" || run == ".") && !race.On && !testing.Short() {
		heard.codes = map[string]int{}
	}
	status := m.Run()
	if status == 0 && heard.codes != nil {
		if err := checkHeard(); err != nil {
			fmt.Println("--- FAIL: the vocabulary")
			fmt.Println(err)
			status = 1
		}
	}
	os.Exit(status)
}

// hear notes the codes in what was said.
func hear(said any) {
	if heard.codes == nil {
		return
	}
	heard.Lock()
	defer heard.Unlock()
	listen(reflect.ValueOf(said), heard.codes)
}

// listen counts the codes in a value.
func listen(v reflect.Value, codes map[string]int) {
	switch v.Kind() { //nolint:exhaustive // the others hold no codes
	case reflect.Pointer, reflect.Interface:
		if _, seen := v.Interface().(*nodescaler.Snapshot); !seen && !v.IsNil() {
			listen(v.Elem(), codes)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			listen(v.Index(i), codes)
		}
	case reflect.Map:
		for i := v.MapRange(); i.Next(); {
			listen(i.Value(), codes)
		}
	case reflect.Struct:
		listenToFields(v, codes)
	}
}

func listenToFields(v reflect.Value, codes map[string]int) {
	switch said := v.Interface().(type) {
	case podscaler.Reason:
		codes[said.Code]++
	case kube.Event:
		codes[said.Reason]++
	case metav1.Condition:
		codes[said.Type]++
		codes[said.Reason]++
	default:
		for i := range v.NumField() {
			switch f := v.Type().Field(i); {
			case !f.IsExported():
			case f.Name == "Kind" || f.Name == "Code":
				codes[v.Field(i).String()]++
			default:
				listen(v.Field(i), codes)
			}
		}
	}
}

func checkHeard() error {
	silent := map[string]string{}
	for _, r := range reasons.All() {
		if n := heard.codes[r.Code]; n == 0 || *updateUnheard && n < surelyHeard {
			silent[r.Code] = r.Group
		}
	}
	if *updateUnheard {
		return writeUnheard(silent)
	}
	excused, err := readUnheard()
	if err != nil {
		return err
	}
	var wrong []error
	for _, code := range slices.Sorted(maps.Keys(silent)) {
		if excused[code] == "" {
			wrong = append(wrong, fmt.Errorf("%s (%s) is said in no test of this package: bring it about, or list it in %s", code, silent[code], unheardFile))
		}
	}
	return errors.Join(wrong...)
}

// readUnheard returns the lines by their codes. A third column says why a code cannot be said.
func readUnheard() (map[string]string, error) {
	text, err := os.ReadFile(unheardFile)
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		code, _, _ := strings.Cut(line, " ")
		all[code] = line
	}
	return all, err
}

func writeUnheard(silent map[string]string) error {
	before, err := readUnheard()
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, code := range slices.Sorted(maps.Keys(silent)) {
		out.WriteString(cmp.Or(before[code], fmt.Sprintf("%s %s\n", code, silent[code])))
	}
	return os.WriteFile(unheardFile, []byte(out.String()), 0o644)
}
