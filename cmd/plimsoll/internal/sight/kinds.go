package sight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/deploy"
)

// The kinds in a cluster may be older than the program: an API server then drops, without a word,
// fields of objects that the program would read, and of statuses that it writes. What the API
// server publishes of its kinds anybody may read who is authenticated.

// kindSchema is as much of a kind's schema as says which fields there are.
type kindSchema struct {
	Properties map[string]*kindSchema `json:"properties"`
	Items      *kindSchema            `json:"items"`
	Additional *kindSchema            `json:"additionalProperties"`
}

// UnmarshalJSON takes a schema that is just true or false for one without fields.
func (s *kindSchema) UnmarshalJSON(text []byte) error {
	if t := bytes.TrimSpace(text); bytes.Equal(t, []byte("true")) || bytes.Equal(t, []byte("false")) {
		return nil
	}
	type plain kindSchema
	return json.Unmarshal(text, (*plain)(s))
}

// missing are the fields that the wanted schema has and the other does not, by their paths. Of a
// field that is missing those below it are not named.
func (s *kindSchema) missing(in *kindSchema, path string) []string {
	if s == nil {
		return nil
	}
	if in == nil {
		in = &kindSchema{}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		below := strings.TrimPrefix(path+"."+name, ".")
		if path == "" && (name == "apiVersion" || name == "kind" || name == "metadata") {
			continue // every kind has them, as references
		}
		other, there := in.Properties[name]
		if !there {
			out = append(out, below)
			continue
		}
		out = append(out, s.Properties[name].missing(other, below)...)
	}
	out = append(out, s.Items.missing(in.Items, path)...)
	return append(out, s.Additional.missing(in.Additional, path)...)
}

// ownKinds are the schemas of the kinds that the program was built with, by kind.
func ownKinds() (map[string]*kindSchema, error) {
	text, err := deploy.Kinds()
	if err != nil {
		return nil, err
	}
	out := map[string]*kindSchema{}
	for d := yaml.NewYAMLToJSONDecoder(bytes.NewReader(text)); ; {
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct {
						OpenAPI *kindSchema `json:"openAPIV3Schema"`
					}
				}
			}
		}
		if err := d.Decode(&crd); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if len(crd.Spec.Versions) > 0 {
			out[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPI
		}
	}
}

// oldKinds says of each kind that the cluster has which fields it lacks.
func oldKinds(client discovery.DiscoveryInterface) (map[string][]string, error) {
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		return nil, err
	}
	group, there := paths["apis/"+v1alpha1.GroupVersion.String()]
	if !there {
		return nil, nil // the kinds are not there, which is said elsewhere
	}
	text, err := group.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var served struct {
		Components struct{ Schemas map[string]*kindSchema }
	}
	if err := json.Unmarshal(text, &served); err != nil {
		return nil, fmt.Errorf("schemas of the cluster's kinds: %w", err)
	}
	own, err := ownKinds()
	out := map[string][]string{}
	for kind, want := range own {
		for name, is := range served.Components.Schemas {
			if strings.HasSuffix(name, "."+kind) {
				if lacks := want.missing(is, ""); len(lacks) > 0 {
					out[kind] = lacks
				}
			}
		}
	}
	return out, err
}

// WarnOldKinds warns once of kinds that are older than the program.
func WarnOldKinds(ctx context.Context, log *slog.Logger, client discovery.DiscoveryInterface) {
	all, err := oldKinds(client)
	if ctx.Err() != nil || apierrors.IsNotFound(err) { // servers that publish no schemas
		return
	}
	if err != nil {
		log.Warn("whether the cluster's kinds are as new as this program is not known", "error", err)
	}
	const named = 5
	for _, kind := range slices.Sorted(maps.Keys(all)) {
		lacks := all[kind]
		more := ""
		if len(lacks) > named {
			more = fmt.Sprintf(" and %d more", len(lacks)-named)
		}
		log.Warn("the cluster's kind is older than this program, and drops fields: plimsoll manifests crds | kubectl apply --server-side -f -",
			"kind", kind, "lacks", strings.Join(lacks[:min(named, len(lacks))], " ")+more)
	}
}
