// Package crd says of manifests what an API server would, in milliseconds and without one: it runs
// the API server's own rules over CustomResourceDefinitions and over objects of their kinds.
//
// What an API server does besides is omitted: admission plugins, and what it thinks of names and of
// fields that it manages itself.
package crd

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	v1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdrules "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// Judge knows some kinds.
type Judge struct{ kinds map[string]*kind }

// kind is one version of a kind.
type kind struct {
	schema *schema.Structural
	rules  validation.SchemaValidator
	cel    *cel.Validator
}

// Read reads the CustomResourceDefinitions in the YAML files of a folder. It returns everything
// that an API server would refuse of them, rules that might take too long included.
func Read(folder fs.FS) (*Judge, error) {
	files, err := fs.Glob(folder, "*.yaml")
	if err != nil {
		return nil, err
	}
	j := &Judge{kinds: map[string]*kind{}}
	for _, name := range files {
		data, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		if err := j.learn(data); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return j, nil
}

func (j *Judge) learn(data []byte) error {
	var published v1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(data, &published); err != nil {
		return err
	}
	v1.SetDefaults_CustomResourceDefinition(&published)
	v1.SetDefaults_CustomResourceDefinitionSpec(&published.Spec)
	var definition apiextensions.CustomResourceDefinition
	if err := v1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&published, &definition, nil); err != nil {
		return err
	}
	// As one that is being created: what versions have been stored is for the server to say.
	definition.Status.StoredVersions = []string{published.Spec.Versions[0].Name}
	if faults := crdrules.ValidateCustomResourceDefinition(context.Background(), &definition); len(faults) > 0 {
		return faults.ToAggregate()
	}
	for i := range published.Spec.Versions {
		v := &published.Spec.Versions[i]
		k, err := newKind(v.Schema.OpenAPIV3Schema)
		if err != nil {
			return err
		}
		j.kinds[published.Spec.Group+"/"+v.Name+" "+published.Spec.Names.Kind] = k
	}
	return nil
}

func newKind(published *v1.JSONSchemaProps) (*kind, error) {
	var props apiextensions.JSONSchemaProps
	if err := v1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(published, &props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	rules, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, err
	}
	return &kind{schema: structural, rules: rules, cel: cel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Schema is the schema of the kind that an object is of, or nil.
func (j *Judge) Schema(apiVersion, kind string) *schema.Structural {
	if k := j.kinds[apiVersion+" "+kind]; k != nil {
		return k.schema
	}
	return nil
}

// Kinds are the kinds that are known, as "group/version Kind", sorted.
func (j *Judge) Kinds() []string {
	var names []string
	for name := range j.kinds {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Create returns a manifest as the API server would store it, with its defaults, or every fault
// that it would be refused for under strict field validation.
func (j *Judge) Create(manifest []byte) (*unstructured.Unstructured, error) {
	k, obj, faults := j.read(manifest)
	if k == nil {
		return nil, faults.ToAggregate()
	}
	faults = append(faults, validation.ValidateCustomResource(nil, obj.Object, k.rules)...)
	return obj, k.finish(faults, obj, nil).ToAggregate()
}

// Update is Create for an object that is there already.
func (j *Judge) Update(old *unstructured.Unstructured, manifest []byte) (*unstructured.Unstructured, error) {
	k, obj, faults := j.read(manifest)
	if k == nil {
		return nil, faults.ToAggregate()
	}
	faults = append(faults, validation.ValidateCustomResourceUpdate(nil, obj.Object, old.Object, k.rules)...)
	return obj, k.finish(faults, obj, old.Object).ToAggregate()
}

// read decodes a manifest, notes unknown fields and fills in defaults.
func (j *Judge) read(manifest []byte) (*kind, *unstructured.Unstructured, field.ErrorList) {
	refuse := func(format string, args ...any) (*kind, *unstructured.Unstructured, field.ErrorList) {
		return nil, nil, field.ErrorList{field.Invalid(nil, field.OmitValueType{}, fmt.Sprintf(format, args...))}
	}
	text, err := yaml.YAMLToJSONStrict(manifest)
	if err != nil {
		return refuse("%v", err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(text); err != nil {
		return refuse("%v", err)
	}
	k := j.kinds[obj.GetAPIVersion()+" "+obj.GetKind()]
	if k == nil {
		return refuse("no matches for kind %q in version %q", obj.GetKind(), obj.GetAPIVersion())
	}
	var faults field.ErrorList
	tracking := schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	for _, path := range pruning.PruneWithOptions(obj.Object, k.schema, true, tracking) {
		faults = append(faults, field.Invalid(nil, field.OmitValueType{}, fmt.Sprintf("unknown field %q", path)))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(obj.Object, k.schema)
	defaulting.Default(obj.Object, k.schema)
	return k, obj, faults
}

// finish applies the rules that come after the schema's. CEL is not asked about objects whose shape
// it could not rely on.
func (k *kind) finish(faults field.ErrorList, obj *unstructured.Unstructured, old any) field.ErrorList {
	faults = append(faults, listtype.ValidateListSetsAndMaps(nil, k.schema, obj.Object)...)
	blocking := []field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}
	for _, f := range faults {
		if slices.Contains(blocking, f.Type) {
			return faults
		}
	}
	more, _ := k.cel.Validate(context.Background(), nil, k.schema, obj.Object, old, celconfig.RuntimeCELCostBudget)
	return append(faults, more...)
}
