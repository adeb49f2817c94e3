package resources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
	sigsyaml "sigs.k8s.io/yaml"
)

// Objects returns the objects in a YAML file of any number of documents, those in lists too, with
// numbers as they are written.
func Objects(manifests []byte) ([]map[string]any, error) {
	var all []map[string]any
	documents := yaml.NewDecoder(bytes.NewReader(manifests))
	for n := 1; ; n++ {
		var node yaml.Node
		err := documents.Decode(&node)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var object map[string]any
		if err == nil {
			object, err = objectOf(&node)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		all = append(all, unlist(object)...)
	}
}

// objectOf returns a document as an object; nil if it is empty.
func objectOf(document *yaml.Node) (map[string]any, error) {
	text, err := yaml.Marshal(document)
	if err != nil {
		return nil, err
	}
	if text, err = sigsyaml.YAMLToJSONStrict(text); err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var object any
	if err := d.Decode(&object); err != nil {
		return nil, err
	}
	switch object := object.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return object, nil
	case []any:
		return nil, errors.New("must be a mapping, was a list")
	}
	return nil, fmt.Errorf("must be a mapping, was %v", object)
}

// unlist takes a list of objects apart.
func unlist(object map[string]any) []map[string]any {
	if object == nil {
		return nil
	}
	kind, _ := object["kind"].(string)
	items, ok := object["items"].([]any)
	if !ok || !strings.HasSuffix(kind, "List") {
		return []map[string]any{object}
	}
	var all []map[string]any
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			all = append(all, unlist(o)...)
		}
	}
	return all
}
