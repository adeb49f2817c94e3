package product

import (
	"bytes"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/testbed/lab/plane"
)

func TestTheExampleIsAnApplicationOfTheTrafficPlane(t *testing.T) {
	var found int
	for _, doc := range bytes.Split(shop, []byte("\n---\n")) {
		var o struct {
			Kind string
			Spec struct{ Template corev1.PodTemplateSpec }
		}
		if err := yaml.Unmarshal(doc, &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "Deployment" && o.Spec.Template.Annotations[plane.AnnotationDemand] != "" {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%d Deployments have the annotation %s, want 1", found, plane.AnnotationDemand)
	}
}
