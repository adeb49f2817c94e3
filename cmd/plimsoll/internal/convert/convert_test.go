package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/crd"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

var options = Options{WindowUnit: time.Minute}

// sources are the manifests that the command's script converts.
func sources(t *testing.T) map[string][]byte {
	t.Helper()
	script := must.Get(txtar.ParseFile("../../testdata/script/convert.txt"))(t)
	all := map[string][]byte{}
	for _, f := range script.Files {
		if _, _, err := Manifests(f.Data, options); err == nil && strings.HasSuffix(f.Name, ".yaml") && len(f.Data) > 0 {
			all[f.Name] = f.Data
		}
	}
	if len(all) < 8 {
		t.Fatalf("%d sources only", len(all))
	}
	return all
}

// crdRules are those of the CRDs; they take a while to compile.
var crdRules = sync.OnceValues(func() (*crd.Judge, error) { return crd.Read(os.DirFS("../../../../deploy/crds")) })

func judge(t *testing.T) *crd.Judge {
	t.Helper()
	return must.Get(crdRules())(t)
}

// written is a result's manifest.
func written(t must.Test, r Result) []byte {
	text := must.Get(json.Marshal(r.To))(t)
	var object map[string]any
	must.Do(t, json.Unmarshal(text, &object))
	delete(object, "status")
	text = must.Get(json.Marshal(object))(t)
	return text
}

func TestWhatIsWrittenIsAccepted(t *testing.T) {
	j := judge(t)
	for name, source := range sources(t) {
		results, _, err := Manifests(source, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.To == nil {
				continue
			}
			if _, err := j.Create(written(t, r)); err != nil {
				t.Errorf("%s: %s: %v", name, r.From, err)
			}
			if r.To.Spec.Mode != "Recommend" {
				t.Errorf("%s: %s is in mode %s", name, r.From, r.To.Spec.Mode)
			}
		}
	}
}

// What is printed is read back as it was by Kubernetes' own reader of YAML.
func TestWhatIsPrintedIsReadAsItWas(t *testing.T) {
	all := sources(t)
	for _, table := range []string{"vpa", "kproximate"} {
		for _, f := range must.Get(txtar.ParseFile("testdata/" + table + ".txtar"))(t).Files {
			all[table+" "+f.Name] = f.Data
		}
	}
	printed := 0
	for name, source := range all {
		results, _, err := Manifests(source, options)
		if err != nil {
			continue // other tests have what is refused
		}
		for _, r := range results {
			object := any(r.To)
			if r.Pool != nil {
				object = r.Pool
			} else if r.To == nil {
				continue
			}
			text := must.Get(json.Marshal(object))(t)
			var out bytes.Buffer
			must.Do(t, cli.WriteYAML(&out, text))
			var was, is any
			must.Do(t, json.Unmarshal(text, &was))
			must.Do(t, yaml.Unmarshal(out.Bytes(), &is))
			if diff := cmp.Diff(was, is); diff != "" {
				t.Errorf("%s: %s is read otherwise than it was printed (-was +is)\n%s", name, r.From, diff)
			}
			printed++
		}
	}
	if printed < 20 {
		t.Errorf("%d manifests only", printed)
	}
}

// unread are the keys that may say what they like: in these places they have no meaning.
var unread = []string{".status", ".metadata.uid", ".metadata.resourceVersion", ".metadata.creationTimestamp", "last-applied-configuration"}

// Each value that a manifest has is in what is written, or is said to be lost, or is below
// something that is.
func TestNothingIsLostInSilence(t *testing.T) {
	for name, source := range sources(t) {
		var object map[string]any
		if err := yaml.Unmarshal(source, &object); err != nil {
			continue // several documents, each of which is another source
		}
		was, _, _ := Manifests(source, options)
		eachScalar(object, "", func(path string, set func(any)) {
			if path == ".apiVersion" && object["kind"] == "List" {
				return // it is that of the list
			}
			if slices.ContainsFunc(unread, func(part string) bool { return strings.Contains(path, part) }) || coveredBy(was, path) {
				return
			}
			for _, other := range []any{"zz9", 7} {
				set(other)
				text := must.Get(yaml.Marshal(object))(t)
				is, others, err := Manifests(text, options)
				if err == nil && len(others) == 0 && reflect.DeepEqual(was, is) {
					t.Errorf("%s: %s may be %v and nothing differs", name, path, other)
				}
			}
			set(nil)
		})
	}
}

// coveredBy reports whether a path is lost, with what it is in.
func coveredBy(results []Result, path string) bool {
	for _, r := range results {
		if r.To == nil {
			return true
		}
		for _, l := range r.Lost {
			if strings.HasPrefix(path, "."+l.Key) {
				return true
			}
		}
	}
	return false
}

// eachScalar visits every value; set puts another in its place, and nil the old one.
func eachScalar(value any, path string, visit func(path string, set func(any))) {
	visitAt := func(at string, v any, put func(any)) {
		switch v.(type) {
		case map[string]any, []any:
			eachScalar(v, at, visit)
		default:
			visit(at, func(other any) {
				if other == nil {
					other = v
				}
				put(other)
			})
		}
	}
	switch value := value.(type) {
	case map[string]any:
		for key, v := range value {
			at := path + "." + key
			if strings.ContainsAny(key, "./") {
				at = fmt.Sprintf("%s[%q]", path, key)
			}
			visitAt(at, v, func(other any) { value[key] = other })
		}
	case []any:
		for i, v := range value {
			visitAt(fmt.Sprintf("%s[%d]", path, i), v, func(other any) { value[i] = other })
		}
	}
}

// scalars are what people write, and what they write by mistake.
var scalars = []any{
	0, 1, -1, 5, 100, 1000001, 1 << 31, 1 << 40, 0.5, 1.25, true, nil, "", "0", "1", "-1", "500m", "1e3", "1.0005", "2k", "1Gi", "99999999999999999999",
	"99th", "p100", "web", "a b", "é\n- x", strings.Repeat("x", 5000), "http://a", "http://u:p@a:1", "apps", "v1", "Deployment", "deployment", "Value", "AverageValue",
	"Utilization", "cpu", "Pods", "Percent", "Max", emptyMap, emptyList, someMap, someList,
}

// Trees are made anew whenever they are drawn: one that was put into itself would have no end.
const (
	emptyMap treeKind = iota
	emptyList
	someMap
	someList
)

type treeKind int

func (t treeKind) value() any {
	return []any{map[string]any{}, []any{}, map[string]any{"a": "b"}, []any{1}}[t]
}

// For any manifest, the API server never refuses what is written.
func TestWhateverIsReadWhatIsWrittenIsAccepted(t *testing.T) {
	j, all := judge(t), sources(t)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	wrote := 0
	rapid.Check(t, func(t *rapid.T) {
		var object map[string]any
		if err := yaml.Unmarshal(all[rapid.SampledFrom(names).Draw(t, "source")], &object); err != nil {
			return
		}
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			change(t, object)
		}
		text := must.Get(yaml.Marshal(object))(t)
		results, _, err := Manifests(text, options)
		if err != nil {
			return
		}
		for _, r := range results {
			if r.To == nil {
				continue
			}
			wrote++
			if _, err := j.Create(written(t, r)); err != nil {
				t.Fatalf("%v\nof\n%s", err, text)
			}
		}
	})
	if wrote == 0 {
		t.Fatal("nothing was written: the law has said nothing")
	}
}

// change puts something else in one place.
func change(t *rapid.T, object map[string]any) {
	var sets []func(any)
	var paths []string
	eachScalar(object, "", func(path string, set func(any)) { sets, paths = append(sets, set), append(paths, path) })
	order := make([]int, len(paths))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(paths[a], paths[b]) })
	if len(order) > 0 {
		other := rapid.SampledFrom(scalars).Draw(t, "scalar")
		if k, ok := other.(treeKind); ok {
			other = k.value()
		}
		sets[order[rapid.IntRange(0, len(order)-1).Draw(t, "at")]](other)
	}
}

func TestDurationsAreWrittenAsTheAPITakesThem(t *testing.T) {
	got := map[string]string{}
	for _, d := range []time.Duration{0, 300 * time.Millisecond, 1500 * time.Millisecond, 30 * time.Second, 90 * time.Minute, 25 * time.Hour} {
		got[d.String()] = string(duration(d))
	}
	want := map[string]string{"0s": "0s", "300ms": "300ms", "1.5s": "1s500ms", "30s": "30s", "1h30m0s": "1h30m", "25h0m0s": "25h"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a tool finds its objects by stays with the original: it would delete what is not in its
// source.
func TestWhatDeploysTheOriginalDoesNotOwnWhatIsMade(t *testing.T) {
	results, _, err := Manifests([]byte(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: web
  labels:
    app: web
    app.kubernetes.io/name: web
    app.kubernetes.io/instance: shop
    app.kubernetes.io/managed-by: Helm
    argocd.argoproj.io/instance: shop
    helm.sh/chart: web-1.2.3
    kustomize.toolkit.fluxcd.io/name: shop
  annotations:
    meta.helm.sh/release-name: shop
    argocd.argoproj.io/tracking-id: "shop:autoscaling/HorizontalPodAutoscaler:shop/web"
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: api, labels: {app.kubernetes.io/managed-by: team-a}}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: api}
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
`), options)
	must.Do(t, err)
	if d := cmp.Diff(map[string]string{"app": "web", "app.kubernetes.io/name": "web"}, results[0].To.Labels); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if d := cmp.Diff(map[string]string{"app.kubernetes.io/managed-by": "team-a"}, results[1].To.Labels); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	noted := slices.ContainsFunc(results[0].Notes, func(n string) bool {
		return strings.HasPrefix(n, "app.kubernetes.io/instance, app.kubernetes.io/managed-by, argocd.argoproj.io/instance, helm.sh/chart, "+
			"kustomize.toolkit.fluxcd.io/name, argocd.argoproj.io/tracking-id, meta.helm.sh/release-name: not taken over")
	})
	if !noted || len(results[0].Lost) > 0 || len(results[0].To.Annotations) > 0 {
		t.Errorf("notes %q, lost %v, annotations %v", results[0].Notes, results[0].Lost, results[0].To.Annotations)
	}
}
