package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// policy is a call of register, and what is known of the settings of the same name.
type policy struct {
	Name, Summary string
	// Settings is the struct of settings, nil for a policy that has none.
	Settings *ast.StructType
	// Fields are the settings as the API writes them, where it has no type of that name written by
	// hand.
	Fields []field
}

// Key is the name of the block of settings: sloCost for SLOCost, hpa for HPA.
func (p policy) Key() string {
	letters := []rune(p.Name)
	for i, r := range letters {
		if !unicode.IsUpper(r) || i > 0 && i+1 < len(letters) && unicode.IsLower(letters[i+1]) {
			break
		}
		letters[i] = unicode.ToLower(r)
	}
	return string(letters)
}

// field is one setting in the API.
type field struct {
	Name, Key, Type string
	Doc             []string
}

// readPolicies returns the registered policies, sorted by name.
func readPolicies(folder string) ([]policy, error) {
	files, err := parse(folder)
	if err != nil {
		return nil, err
	}
	settings := structs(files)
	var policies []policy
	var failed error
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if name, named := callee(call); !ok || !named || name != "register" {
				return true
			}
			p, err := registered(call)
			failed = cmp.Or(failed, err)
			p.Settings = settings[p.Name]
			policies = append(policies, p)
			return true
		})
	}
	if failed == nil && len(policies) == 0 {
		failed = fmt.Errorf("%s: no call of register found", folder)
	}
	slices.SortFunc(policies, func(a, b policy) int { return cmp.Compare(a.Name, b.Name) })
	return policies, failed
}

func callee(call *ast.CallExpr) (string, bool) {
	if call == nil {
		return "", false
	}
	name, ok := call.Fun.(*ast.Ident)
	if !ok {
		return "", false
	}
	return name.Name, true
}

// registered reads name and summary of a call of register.
func registered(call *ast.CallExpr) (policy, error) {
	if len(call.Args) != 3 {
		return policy{}, fmt.Errorf("register: must have a name, a summary and a function, had %d arguments", len(call.Args))
	}
	name, errName := text(call.Args[0])
	summary, errSummary := text(call.Args[1])
	switch {
	case errName != nil || errSummary != nil:
		return policy{}, fmt.Errorf("register: name and summary must be literal texts: %w", cmp.Or(errName, errSummary))
	case !token.IsExported(name) || !token.IsIdentifier(name):
		return policy{}, fmt.Errorf("register: the name must be written as in the API, such as FastSlow, was %q", name)
	case !strings.HasSuffix(summary, "."):
		return policy{}, fmt.Errorf("register %s: the summary must be a sentence that follows the name, and end in a full stop, was %q", name, summary)
	}
	return policy{Name: name, Summary: summary}, nil
}

// text returns what a text, or several with + between them, say.
func text(e ast.Expr) (string, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(e.Value)
	case *ast.BinaryExpr:
		left, errLeft := text(e.X)
		right, errRight := text(e.Y)
		return left + right, cmp.Or(errLeft, errRight)
	}
	return "", fmt.Errorf("must be a text, was %T", e)
}

// parse reads the Go files of a folder but for tests and what is generated here.
func parse(folder string) ([]*ast.File, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var files []*ast.File
	for _, name := range names {
		if base := filepath.Base(name); strings.HasSuffix(base, "_test.go") || base == filepath.Base(specFile) || base == filepath.Base(apiFile) {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// structs returns the structs of files by name.
func structs(files []*ast.File) map[string]*ast.StructType {
	found := map[string]*ast.StructType{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.TypeSpec); ok {
				if s, isStruct := spec.Type.(*ast.StructType); isStruct {
					found[spec.Name.Name] = s
				}
			}
			return true
		})
	}
	return found
}

// addSettings gives the API a type for settings where no one wrote one for it: one written by hand
// has rules that say more than Go types do.
func addSettings(policies []policy, folder string) error {
	files, err := parse(folder)
	if err != nil {
		return err
	}
	written := structs(files)
	for i := range policies {
		p := &policies[i]
		if p.Settings == nil || written[p.Name] != nil {
			continue
		}
		for _, f := range p.Settings.Fields.List {
			made, err := apiField(f)
			if err != nil {
				return fmt.Errorf("%s: %w; write the type %s by hand in %s", p.Name, err, p.Name, apiFolder)
			}
			p.Fields = append(p.Fields, made)
		}
	}
	return nil
}

// apiTypes are how the API writes the types of settings. Fractions are texts there.
var apiTypes = map[string]string{
	"bool": "bool", "string": "string", "int": "int32",
	"float64": "*Ratio", "podscaler.Duration": "*Duration", "Quantity": "*Quantity",
}

func apiField(f *ast.Field) (field, error) {
	if len(f.Names) != 1 || f.Tag == nil {
		return field{}, fmt.Errorf("a setting must have one name, and a key in its tag")
	}
	name := f.Names[0].Name
	goType, pointer := f.Type, ""
	if star, ok := f.Type.(*ast.StarExpr); ok {
		goType, pointer = star.X, "*"
	}
	apiType, ok := apiTypes[typeName(goType)]
	if !ok {
		return field{}, fmt.Errorf("the setting %s has a type that has no counterpart in the API", name)
	}
	if !strings.HasPrefix(apiType, "*") {
		apiType = pointer + apiType
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return field{}, err
	}
	_, rest, _ := strings.Cut(tag, `json:"`)
	key, _, _ := strings.Cut(rest, `"`)
	key, _, _ = strings.Cut(key, ",")
	if key == "" {
		return field{}, fmt.Errorf("the setting %s must have a key in its json tag", name)
	}
	doc := strings.Split(strings.TrimSpace(f.Doc.Text()), "\n")
	if doc[0] == "" {
		return field{}, fmt.Errorf("the setting %s must have a comment, which is what users read", name)
	}
	return field{Name: name, Key: key, Type: apiType, Doc: doc}, nil
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok {
			return pkg.Name + "." + e.Sel.Name
		}
	}
	return ""
}
