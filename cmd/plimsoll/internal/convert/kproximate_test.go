package convert

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// The values of kproximate's chart in the shapes that people write, and what comes of each. What a
// join command or another secret holds is nowhere in it.
func TestKproximatesValues(t *testing.T) {
	shapes(t, "kproximate", func(name string, data []byte) string {
		out := convertedValues(data)
		if strings.Contains(out, "s3cret") {
			t.Errorf("%s: a secret is printed", name)
		}
		sameMachines(t, name, data)
		return out
	})
}

// sameMachines has the policy that scales as kproximate does order machines of the pool for pods
// that wait, and compares how many with kproximate's own sum.
func sameMachines(t *testing.T, name string, data []byte) {
	t.Helper()
	results, _, err := Manifests(data, Options{})
	if err != nil || len(results) == 0 || results[0].Pool == nil {
		return
	}
	from, err := resources.Pool(results[0].Pool)
	if err != nil || len(from.Shapes) != 1 || from.Max == 0 {
		return // a note says what is to be written first
	}
	shape, chance := from.Shapes[0], rand.New(rand.NewPCG(1, 2))
	for range 50 {
		w := sample.New()
		w.Pools[0].Shapes, w.Pools[0].Max = from.Shapes, from.Max
		w.Hosts[0].Room = shape.Resources().Times(1000)
		var cpu, memory float64
		for i := range 1 + chance.IntN(30) {
			m, b := 1+chance.Int64N(int64(shape.CPU)), 1+chance.Int64N(int64(shape.Memory/pricing.MiB))
			w.Pod(fmt.Sprint("p-", i), "", pricing.MilliCPU(m), pricing.Bytes(b))
			cpu, memory = cpu+float64(m)/float64(shape.CPU), memory+float64(b)/float64(shape.Memory/pricing.MiB)
		}
		settings := policy.DefaultPending()
		settings.Parallel = 1000
		p := must.Get(policy.New(policy.Spec{Policy: "pending", Pending: &settings}))(t)
		first := sample.New()
		first.Now = w.Now.Add(-time.Minute)
		sample.Decide(t, p, &first.Snapshot)
		plan, ordered := sample.Decide(t, p, &w.Snapshot), 0
		for i := range plan.Actions {
			if plan.Actions[i].Kind == nodescaler.Buy {
				ordered++
			}
		}
		if want := min(int(math.Ceil(max(cpu, memory)-1e-9)), from.Max); ordered != want {
			t.Fatalf("%s: %d machines are ordered for %.2f of CPU and %.2f of memory, and kproximate orders %d: %v", name, ordered, cpu, memory, want, plan.Reasons)
		}
	}
}

// shapes compares what comes of each source in a table with what is behind it there.
func shapes(t *testing.T, table string, converted func(name string, data []byte) string) {
	t.Helper()
	path := filepath.Join("testdata", table+".txtar")
	read := must.Get(txtar.ParseFile(path))(t)
	got := txtar.Archive{Comment: read.Comment}
	for _, f := range read.Files {
		if name, is := strings.CutSuffix(f.Name, ".yaml"); is {
			got.Files = append(got.Files, f, txtar.File{Name: name + ".out", Data: []byte(converted(name, f.Data))})
		}
	}
	if len(got.Files) < 2*30 {
		t.Errorf("%d shapes", len(got.Files)/2)
	}
	golden.Compare(t, path, string(txtar.Format(&got)))
}

// convertedValues is what comes of a file, as text.
func convertedValues(data []byte) string {
	results, others, err := Manifests(data, Options{})
	var out strings.Builder
	for _, o := range others {
		out.WriteString("skipped: " + o + "\n")
	}
	if err != nil {
		return out.String() + err.Error() + "\n"
	}
	for i := range results {
		r := &results[i]
		for _, n := range r.Notes {
			out.WriteString("note: " + n + "\n")
		}
		for _, l := range r.Lost {
			out.WriteString("lost: " + l.String() + "\n")
		}
		text, err := yaml.Marshal(map[string]any{r.Pool.Name: r.Pool.Spec})
		if err != nil {
			return err.Error()
		}
		out.Write(text)
	}
	return out.String()
}
