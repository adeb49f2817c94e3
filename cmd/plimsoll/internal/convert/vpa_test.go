package convert

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// VerticalPodAutoscalers in the shapes that people write, and what comes of each. The API server
// accepts all that is written.
func TestVerticalPodAutoscalers(t *testing.T) {
	j := judge(t)
	shapes(t, "vpa", func(name string, data []byte) string {
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
			out.WriteString("from: " + r.From + "\n")
			for _, n := range r.Notes {
				out.WriteString("note: " + n + "\n")
			}
			for _, l := range r.Lost {
				out.WriteString("lost: " + l.String() + "\n")
			}
			if r.To == nil {
				continue
			}
			if _, err := j.Create(written(t, *r)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			out.Write(must.Get(yaml.Marshal(map[string]any{r.To.Name: r.To.Spec}))(t))
		}
		return out.String()
	})
}

func TestSizesAreWrittenAsTheAPITakesThem(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0Ti", 1: "1B", 1000: "1k", 1024: "1Ki", 1 << 20: "1Mi", 1 << 30: "1Gi", 2e9: "2G", 500 << 20: "500Mi", 999_999: "999999B",
		764046747: "746140Ki, rounded", 1 << 60: "1048576Ti, rounded",
	} {
		got, exact := sizeOf(bytes)
		if !exact {
			got += ", rounded"
		}
		if bytes == 1<<60 { // more than the API takes
			want = "999999Ti, rounded"
		}
		if got != want {
			t.Errorf("%d: %s, want %s", bytes, got, want)
		}
	}
}
