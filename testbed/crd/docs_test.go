package crd_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"

	"github.com/plimsoll/plimsoll/testbed/crd"
	"github.com/plimsoll/plimsoll/testbed/must"
)

const (
	document = "../../docs/api.md"
	mark     = "<!-- What follows is written by go test ./testbed/crd -run TestReference -update from the CRDs and the types. -->\n"
)

func TestManifestsOfTheDocumentAreAccepted(t *testing.T) {
	text := must.Get(os.ReadFile(document))(t)
	j := judge(t)
	blocks := crd.Blocks(text)
	if len(blocks) < 5 {
		t.Fatalf("%d manifests only", len(blocks))
	}
	for i, b := range blocks {
		if _, err := j.Create(b); err != nil {
			t.Errorf("manifest %d: %v", i+1, err)
		}
	}
}

// The reference is what the CRDs and the types say.
func TestReference(t *testing.T) {
	text := must.Get(os.ReadFile(document))(t)
	own, was, _ := strings.Cut(string(text), mark)
	is := "\n" + reference(t)
	if *update {
		must.Do(t, os.WriteFile(document, []byte(own+mark+is), 0o644))
		return
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("%s: differs from what the CRDs and conditions.go say (-document +CRDs): run make gen:\n%s", document, diff)
	}
}

// reference is the part of the document that lists everything.
func reference(t *testing.T) string {
	var out strings.Builder
	j := judge(t)
	for _, kind := range []string{"WorkloadAutoscaler", "VMPool", "PriceBook", "ScalingProposal"} {
		s := j.Schema("plimsoll.dev/v1alpha1", kind)
		for _, part := range []string{"spec", "status"} {
			fmt.Fprintf(&out, "## %s: %s\n\n| field | value | omitted | what it is |\n|---|---|---|---|\n", kind, part)
			node := s.Properties[part]
			rows(&out, &node, "")
			out.WriteString("\n")
		}
	}
	conditions, reasons := constants(t)
	out.WriteString("## Conditions\n\n")
	for _, c := range conditions {
		fmt.Fprintf(&out, "- **`%s`** %s\n", c.value, c.doc)
	}
	out.WriteString("\nTheir reasons, besides the codes that decisions give, which `plimsoll explain` prints with the numbers:\n\n")
	for _, c := range reasons {
		fmt.Fprintf(&out, "- **`%s`** %s\n", c.value, c.doc)
	}
	return out.String()
}

// rows writes a row for every field below a node.
func rows(out *strings.Builder, s *schema.Structural, path string) {
	for _, key := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[key]
		at := strings.TrimPrefix(path+"."+key, ".")
		if at == "conditions" {
			fmt.Fprintf(out, "| `conditions` | list | | %s |\n", line(p.Description))
			continue
		}
		name := "`" + at + "`"
		if s.ValueValidation != nil && slices.Contains(s.ValueValidation.Required, key) {
			name = "**" + name + "**"
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", name, valueOf(&p), defaultOf(&p), line(p.Description))
		switch {
		case p.Items != nil && len(p.Items.Properties) > 0:
			rows(out, p.Items, at+"[]")
		case p.AdditionalProperties != nil && p.AdditionalProperties.Structural != nil:
			rows(out, p.AdditionalProperties.Structural, at+".*")
		default:
			rows(out, &p, at)
		}
	}
}

// line is a text as a cell of a table.
func line(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// formOf is the rule by which a text has the form of its type: the first of those with a pattern.
func formOf(s *schema.Structural) string {
	for _, rule := range s.XValidations {
		if strings.Contains(rule.Rule, "self.matches(") && !strings.HasPrefix(rule.Rule, "!") {
			return rule.Rule
		}
	}
	return ""
}

// valueOf says what may be in a field.
func valueOf(s *schema.Structural) string {
	v, form := s.ValueValidation, formOf(s)
	switch {
	case v != nil && len(v.Enum) > 0:
		var names []string
		for _, e := range v.Enum {
			names = append(names, fmt.Sprintf("`%v`", e.Object))
		}
		return strings.Join(names, ", ")
	case s.XIntOrString && strings.Contains(form, "m)$"):
		return "cores"
	case s.XIntOrString && strings.Contains(form, "Ki"):
		return "quantity"
	case s.XIntOrString:
		return "decimal"
	case strings.Contains(form, "(h|m|s|ms)"):
		return "duration"
	case strings.Contains(form, "TiB"):
		return "size"
	case s.Type == "integer" && v != nil && v.Minimum != nil && v.Maximum != nil:
		return fmt.Sprintf("integer, %.0f to %.0f", *v.Minimum, *v.Maximum)
	case s.Type == "array" && s.Items != nil && len(s.Items.Properties) == 0:
		return "list of " + valueOf(s.Items)
	case s.Type == "array":
		return "list"
	case s.AdditionalProperties != nil:
		return "by name"
	case s.Type == "object":
		return ""
	case s.Type == "string":
		return "text"
	}
	return s.Type
}

func defaultOf(s *schema.Structural) string {
	if s.Default.Object == nil {
		return ""
	}
	text, err := json.Marshal(s.Default.Object)
	if err != nil {
		return ""
	}
	return "`" + strings.Trim(string(text), `"`) + "`"
}

// constant is a constant with its comment.
type constant struct{ value, doc string }

// constants are the conditions and reasons that the types declare.
func constants(t *testing.T) (conditions, reasons []constant) {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "../../api/v1alpha1/conditions.go", nil, parser.ParseComments))(t)
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, ok := s.Values[0].(*ast.BasicLit)
		if !ok {
			t.Fatalf("%s is no plain text", s.Names[0].Name)
		}
		c := constant{strings.Trim(value.Value, `"`), sentence(s)}
		switch name := s.Names[0].Name; {
		case strings.HasPrefix(name, "Condition"):
			conditions = append(conditions, c)
		case strings.HasPrefix(name, "Reason"):
			reasons = append(reasons, c)
		}
		return true
	})
	return conditions, reasons
}

// sentence is a constant's comment without its name, with what is behind it.
func sentence(s *ast.ValueSpec) string {
	text := strings.Join(strings.Fields(s.Doc.Text()), " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, s.Names[0].Name), ":")
	text = strings.TrimSpace(text)
	if kinds := strings.TrimSpace(s.Comment.Text()); kinds != "" {
		text += " (" + kinds + ")"
	}
	return text
}
