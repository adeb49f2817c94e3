package resources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	openapi "k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// Schema is what a CRD says of single values: forms of texts, bounds, lengths, what must be there
// and what may. Of its rules in CEL, those that compare values are not among them.
type Schema struct {
	validator *validate.SchemaValidator
	root      *openapi.Schema
}

// ReadSchema reads the schema of a kind from its CRD.
func ReadSchema(kind string) (*Schema, error) {
	s, err := schemaOf(kind)
	if err != nil {
		return nil, err
	}
	return &Schema{validate.NewSchemaValidator(s, nil, "", strfmt.Default), s}, nil
}

// Check returns everything that the schema has against an object, sorted: what has the wrong form,
// and keys that it does not know.
func (s *Schema) Check(object any) error {
	text, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return err
	}
	meant := map[string]bool{}
	found := faultsIn("", s.root, tree, meant)
	for _, err := range s.validator.Validate(tree).Errors {
		path, _, _ := strings.Cut(err.Error(), " in body ")
		if v, is := errors.AsType[*openapierrors.Validation](err); is && v.Code() == openapierrors.RequiredFailCode && meant[path] {
			continue // that it is missing is the same fault
		}
		found = append(found, worded(err, tree))
	}
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(found...)
}

// faultsIn are the keys of a value that are not its schema's, and the texts in it that do not have
// the form they must. An object without properties, such as metadata, may have any keys. It notes
// which keys are probably meant by others.
func faultsIn(path string, s *openapi.Schema, value any, meant map[string]bool) (found []error) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			known, is := s.Properties[key]
			switch {
			case is:
				found = append(found, faultsIn(join(path, key), &known, inner, meant)...)
			case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
				found = append(found, faultsIn(join(path, key), s.AdditionalProperties.Schema, inner, meant)...)
			case len(s.Properties) > 0:
				keys := slices.Sorted(maps.Keys(s.Properties))
				found = append(found, pricing.NewFault(join(path, key), strict.Unknown(key, keys)))
				if near, is := strict.Nearest(key, keys); is {
					meant[join(path, near)] = true
				}
			}
		}
	case []any:
		for i, inner := range value {
			if s.Items != nil && s.Items.Schema != nil {
				found = append(found, faultsIn(fmt.Sprintf("%s[%d]", path, i), s.Items.Schema, inner, meant)...)
			}
		}
	case string:
		if message := misformed(s, value); message != "" {
			found = append(found, pricing.NewFault(path, fmt.Sprintf("%s, was %q", message, value)))
		}
	}
	return found
}

// form is a rule in CEL that a text has the form of its type, by itself or where it is no number.
var form = regexp.MustCompile(`^(?:type\(self\) == int \? .* : )?self\.matches\(r?'([^']*)'\)$`)

// misformed is what the rules of its schema say of a text that does not have the form of its type.
func misformed(s *openapi.Schema, text string) string {
	var rules []struct{ Rule, Message string }
	if err := s.Extensions.GetObject("x-kubernetes-validations", &rules); err != nil {
		return ""
	}
	for _, r := range rules {
		if pattern := form.FindStringSubmatch(r.Rule); pattern != nil && !regexp.MustCompile(pattern[1]).MatchString(text) {
			return r.Message
		}
	}
	return ""
}

// worded is what the validator found in the form of our own faults, which have the value as well.
func worded(err error, tree map[string]any) error {
	path, rule, both := strings.Cut(err.Error(), " in body ")
	v, is := errors.AsType[*openapierrors.Validation](err)
	if !is || !both {
		return err
	}
	if v.Code() == openapierrors.RequiredFailCode {
		return pricing.NewFault(path, "must be set")
	}
	if v.Code() == openapierrors.InvalidTypeCode {
		rule, _, _ = strings.Cut(rule, ": ") // the type that it is of: the value says more
	}
	rule = strings.Replace(rule, "should ", "must ", 1)
	if was, err := json.Marshal(valueAt(tree, path)); err == nil {
		rule += ", was " + string(was)
	}
	return pricing.NewFault(path, rule)
}

// valueAt is what is at a path. Keys may have dots in them, as those of labels do.
func valueAt(value any, path string) any {
	path = strings.TrimPrefix(path, ".")
	if path == "" {
		return value
	}
	switch in := value.(type) {
	case []any:
		number, rest, _ := strings.Cut(strings.TrimPrefix(path, "["), "]")
		if i, err := strconv.Atoi(number); err == nil && i < len(in) {
			return valueAt(in[i], rest)
		}
	case map[string]any:
		for key, inner := range in {
			if rest, is := strings.CutPrefix(path, key); is && (rest == "" || strings.ContainsAny(rest[:1], ".[")) {
				if v := valueAt(inner, rest); v != nil {
					return v
				}
			}
		}
	}
	return nil
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
