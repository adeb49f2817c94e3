package convert

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/golden"
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

// The policies of each converted manifest, and of fifty drawn ones, size containers on a load, of
// which each uses something else. testbed/peers/vpa asks the recommender of the Vertical Pod
// Autoscaler the same, by the policies as they were.
func TestConvertedVerticalPodAutoscalersRecommendAsBefore(t *testing.T) {
	type burst struct {
		Kind, Pod, Container             string
		From, Every, N, First, Step, Mod int64
	}
	type line struct {
		Name           string
		ResourcePolicy any
		Stream         []burst
		Want           []rightsize.Recommendation
	}
	var stream []burst
	usage := rightsize.New(rightsize.Defaults())
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, container := range []string{"app", "istio-proxy", "other", "sidecar", "web"} {
		n := int64(i)
		cpu := burst{Kind: "cpu", Pod: "p", Container: container, Every: 60, N: 2880, First: 20 + 90*n, Step: 37, Mod: 900}
		memory := burst{Kind: "memory", Pod: "p", Container: container, Every: 60, N: 2880, First: (40 + 200*n) << 20, Step: 7 << 20, Mod: 600 << 20}
		stream = append(stream, cpu, memory)
		for j := range cpu.N {
			at := noon.Add(time.Duration(j) * time.Minute)
			usage.AddCPU("p", container, at, pricing.MilliCPU(cpu.First+j*cpu.Step%cpu.Mod))
			usage.AddMemory("p", container, at, pricing.Bytes(memory.First+j*memory.Step%memory.Mod))
		}
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	files := must.Get(txtar.ParseFile("testdata/vpa.txtar"))(t).Files
	for _, f := range append(files, drawnVPAs(t, 50)...) {
		results, _, err := Manifests(f.Data, Options{})
		if err != nil || !strings.HasSuffix(f.Name, ".yaml") {
			continue // another test has what is refused
		}
		for _, doc := range strings.Split(string(f.Data), "\n---\n") {
			var original struct {
				Kind string
				Spec struct{ ResourcePolicy any }
			}
			must.Do(t, yaml.Unmarshal([]byte(doc), &original))
			if original.Kind != kindVPA {
				continue
			}
			to := results[0].To
			if results = results[1:]; to == nil || to.Spec.Rightsize == nil {
				continue
			}
			wants, err := resources.Rightsize(to)
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			l := line{Name: f.Name, ResourcePolicy: original.Spec.ResourcePolicy, Stream: stream, Want: usage.Recommend(wants.Policies)}
			for i := range l.Want {
				l.Want[i].Reasons = nil
			}
			must.Do(t, encoder.Encode(l))
		}
	}
	golden.Compare(t, "testdata/vpa.jsonl", text.String())
}

// drawnVPAs are so many objects, each unlike the others, with policies for some of the containers.
func drawnVPAs(t *testing.T, n int) (files []txtar.File) {
	t.Helper()
	type list = map[string]any
	chance := rand.New(rand.NewPCG(50, 26))
	pick := func(of ...any) any { return of[chance.IntN(len(of))] }
	with := func(of list, key string, of10 int, v any) {
		if chance.IntN(10) < of10 {
			of[key] = v
		}
	}
	bounds := func(cpu, memory []any) any {
		all := list{}
		with(all, "cpu", 7, pick(cpu...))
		with(all, "memory", 7, pick(memory...))
		return all
	}
	seen := map[string]bool{}
	for len(files) < n {
		var policies []any
		for _, container := range []string{"app", "istio-proxy", "web", "*"} {
			p := list{"containerName": container}
			with(p, "mode", 3, pick("Auto", "Auto", "Off"))
			with(p, "minAllowed", 5, bounds([]any{"50m", 0.3, "1"}, []any{"100Mi", "1e9", "700M"}))
			with(p, "maxAllowed", 5, bounds([]any{1, "1500m", "2.5"}, []any{"1Gi", "1000000Ki", "3G"}))
			with(p, "controlledResources", 3, pick([]any{"cpu"}, []any{"memory"}, []any{"memory", "cpu"}))
			with(p, "controlledValues", 3, pick("RequestsOnly", "RequestsAndLimits"))
			if chance.IntN(2) == 0 {
				policies = append(policies, p)
			}
		}
		spec := list{"targetRef": list{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "resourcePolicy": list{"containerPolicies": policies}}
		with(spec, "updatePolicy", 8, list{"updateMode": pick("Off", "Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace"), "minReplicas": pick(1, 2, 3)})
		key := string(must.Get(json.Marshal(spec))(t))
		if len(policies) == 0 || seen[key] {
			continue
		}
		seen[key] = true
		object := list{"apiVersion": "autoscaling.k8s.io/v1", "kind": kindVPA, "metadata": list{"name": "web"}, "spec": spec}
		data := append(must.Get(json.Marshal(object))(t), "\n---\n{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}\n"...)
		files = append(files, txtar.File{Name: fmt.Sprintf("drawn-%d.yaml", len(files)), Data: data})
	}
	return files
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
