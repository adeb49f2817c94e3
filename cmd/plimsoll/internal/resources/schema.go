package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

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

// schemaOf is the schema of a kind as its CRD has it.
func schemaOf(kind string) (*openapi.Schema, error) {
	files, err := fs.Glob(deploy.Definitions, "crds/*_"+strings.ToLower(kind)+"s.yaml")
	if err != nil || len(files) != 1 {
		return nil, errors.Join(fmt.Errorf("%s: no such kind", kind), err)
	}
	text, err := fs.ReadFile(deploy.Definitions, files[0])
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
