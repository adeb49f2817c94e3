package resources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	openapi "k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy"
)

// Schema is what a CRD says without CEL: patterns, bounds, lengths, what must be there and what may.
type Schema struct{ validator *validate.SchemaValidator }

// ReadSchema reads the schema of a kind from its CRD.
func ReadSchema(kind string) (*Schema, error) {
	s, err := schemaOf(kind)
	if err != nil {
		return nil, err
	}
	return &Schema{validate.NewSchemaValidator(s, nil, "", strfmt.Default)}, nil
}

// Check returns everything that the schema has against an object.
func (s *Schema) Check(object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return err
	}
	return errors.Join(s.validator.Validate(tree).Errors...)
}

// definitionOf is the CRD of a kind.
func definitionOf(kind string) ([]byte, error) {
	text, err := deploy.Manifests.ReadFile("manifests/crds.yaml")
	if err != nil {
		return nil, err
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		if bytes.Contains(document, []byte("\n    kind: "+kind+"\n")) {
			return document, nil
		}
	}
	return nil, fmt.Errorf("%s: no such kind", kind)
}

// schemaOf is the schema of a kind as its CRD has it.
func schemaOf(kind string) (*openapi.Schema, error) {
	text, err := definitionOf(kind)
	if err != nil {
		return nil, err
	}
	var definition struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema openapi.Schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &definition); err != nil {
		return nil, err
	}
	return &definition.Spec.Versions[0].Schema.OpenAPIV3Schema, nil
}
