package chart

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/plimsoll/plimsoll/deploy/tools/internal/helm"
)

// What the Helm controller of RKE2 and k3s does with the file: it unpacks each chart and installs
// it with the values beside it.
func TestFileForRKE2HoldsTheCharts(t *testing.T) {
	text, err := os.ReadFile("../../rke2/plimsoll-rke2.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	dirs := map[string]string{"plimsoll": chartDir, "plimsoll-crds": kindsDir}
	for _, o := range all[*unstructured.Unstructured](file) {
		// Of Kubernetes' size limits the one for a ConfigMap, which the controller puts the chart
		// into, is the nearest.
		content, _, _ := unstructured.NestedString(o.Object, "spec", "chartContent")
		packed, err := base64.StdEncoding.DecodeString(content)
		if err != nil || len(content) > 1<<20 {
			t.Fatalf("%s: %d bytes, %v", o.GetName(), len(content), err)
		}
		archive := filepath.Join(t.TempDir(), o.GetName()+".tgz")
		if err := os.WriteFile(archive, packed, 0o600); err != nil {
			t.Fatal(err)
		}
		values, _, _ := unstructured.NestedString(o.Object, "spec", "valuesContent")
		got, err := tryRender(t, archive, values)
		if err != nil {
			t.Fatal(err)
		}
		want, err := tryRender(t, dirs[o.GetName()], values)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.objects, got.objects); diff != "" {
			t.Errorf("%s is not the chart, -chart +file:\n%s", o.GetName(), diff)
		}
		delete(dirs, o.GetName())
		if namespace, _, _ := unstructured.NestedString(o.Object, "spec", "targetNamespace"); o.GetNamespace() != "kube-system" || namespace != "plimsoll" {
			t.Errorf("%s lies in %s and installs into %s", o.GetName(), o.GetNamespace(), namespace)
		}
		if out, err := helm.Run("lint", "--strict", archive, "--values", write(t, values)); err != nil {
			t.Errorf("%s: %v\n%s", o.GetName(), err, out)
		}
	}
	if len(dirs) > 0 {
		t.Errorf("these charts are not in it: %v", dirs)
	}
}
