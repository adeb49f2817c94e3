package convert

import (
	"strings"
	"testing"
)

// FuzzManifests reads manifests that anyone wrote: they are converted or refused.
func FuzzManifests(f *testing.F) {
	f.Add("apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 3, scaleTargetRef: {kind: Deployment, name: web}}")
	f.Add("kind: List\nitems:\n- {kind: ScaledObject, apiVersion: keda.sh/v1alpha1, spec: {triggers: [{type: cpu}]}}")
	f.Add("a: &a [*a, *a]\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Count(text, "&") > 2 { // aliases of aliases are refused in time, and slowly
			return
		}
		results, others, err := Manifests([]byte(text), Options{})
		if err != nil {
			return
		}
		for _, r := range results {
			if r.From == "" {
				t.Errorf("a result without a name, beside %q", others)
			}
		}
	})
}
