package product

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
)

// shop is a service in the words of the lab, and how it is scaled.
//
//go:embed shop.yaml
var shop []byte

// Example is a manifest to begin with: the lab's pools, a price book, and a service that does not
// fit until a machine is made for it. Response times are read from the Prometheus at a URL.
func Example(part *machines.Part, prometheus string) ([]byte, error) {
	pools, err := Pools(part)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, p := range pools {
		text, err := yaml.Marshal(p)
		if err != nil {
			return nil, err
		}
		out.Write(text)
		out.WriteString("---\n")
	}
	out.Write(bytes.ReplaceAll(shop, []byte("PROMETHEUS"), []byte(prometheus)))
	return out.Bytes(), nil
}

// ExampleFile is where a lab's example is, in the folder of the lab.
func ExampleFile(data string) string { return filepath.Join(data, PartName, "example.yaml") }

// showExample writes the example to where the documentation says that it is.
func (p *Part) showExample(l *lab.Lab) error {
	if p.PVE == nil || p.Name() != PartName {
		return nil
	}
	text, err := Example(p.PVE, l.Endpoint(lab.PrometheusPart, "api"))
	if err != nil {
		return err
	}
	return os.WriteFile(ExampleFile(l.Data()), text, 0o600)
}

// Pools are the pools of the lab's site, as VMPools that act.
func Pools(part *machines.Part) ([]map[string]any, error) {
	data, err := os.ReadFile(part.SiteFile())
	if err != nil {
		return nil, err
	}
	var site struct {
		Pools []map[string]any `json:"pools"`
	}
	if err := yaml.Unmarshal(data, &site); err != nil {
		return nil, err
	}
	var all []map[string]any
	for _, p := range site.Pools {
		name, _ := p["name"].(string)
		o, err := Object("VMPool", name, p)
		if err != nil {
			return nil, err
		}
		o["spec"].(map[string]any)["mode"] = string(v1alpha1.ModePoolActive)
		all = append(all, o)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no pools", part.SiteFile())
	}
	return all, nil
}

// Object is one of Plimsoll's cluster-wide objects, whose spec has the keys of what is written in
// files too. Files have decimals as numbers, and the API as text.
func Object(kind, name string, from any) (map[string]any, error) {
	data, err := json.Marshal(from)
	if err != nil {
		return nil, err
	}
	var spec map[string]any
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, err
	}
	delete(spec, "name")
	return map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": kind,
		"metadata": map[string]any{"name": name}, "spec": textual(spec),
	}, nil
}

// textual has decimals as text.
func textual(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = textual(v[key])
		}
	case []any:
		for i := range v {
			v[i] = textual(v[i])
		}
	case float64:
		if v == math.Trunc(v) {
			return int64(v)
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return v
}
