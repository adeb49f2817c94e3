package archcheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tree is the Go code of a module, parsed.
type Tree struct {
	fset     *token.FileSet
	top      []string // the folders at the root
	packages []pkg    // by folder
	nested   []pkg    // modules of their own, with the files of all their packages
}

type pkg struct {
	folder string // from the root; "." is the root
	room   *room  // nil when the house has none for it
	files  []file // by name
}

type file struct {
	path   string
	test   bool
	syntax *ast.File
}

// Load parses the tree below the root, for all build tags. It keeps apart what belongs to
// modules of their own.
func Load(fsys fs.FS) (*Tree, error) {
	t := &Tree{fset: token.NewFileSet()}
	err := Walk(fsys, func(name string, d fs.DirEntry) error {
		switch {
		case d.IsDir():
			t.enter(fsys, name)
		case strings.HasSuffix(name, ".go"):
			return t.add(fsys, name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the source tree: %w", err)
	}
	return t, nil
}

// Walk visits the files and folders below the root. It skips what the Go tool skips (testdata and
// hidden folders) and the folders that our own targets write to.
func Walk(fsys fs.FS, visit func(name string, d fs.DirEntry) error) error {
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.IsDir() && skipped(name):
			return fs.SkipDir
		}
		return visit(name, d)
	})
}

// enter notes a folder at the root, or one that is a module of its own.
func (t *Tree) enter(fsys fs.FS, name string) {
	if !strings.Contains(name, "/") {
		t.top = append(t.top, name)
	}
	if _, err := fs.Stat(fsys, path.Join(name, "go.mod")); err == nil {
		t.nested = append(t.nested, pkg{folder: name})
	}
}

// skipped reports whether a folder holds no code of the house.
func skipped(name string) bool {
	base := path.Base(name)
	return base[0] == '.' || base[0] == '_' || base == "testdata" || slices.Contains(scratch, name)
}

// add parses one file into its package. Files come folder by folder, but a folder's own files
// may come in two runs, before and after a folder below it.
func (t *Tree) add(fsys fs.FS, name string) error {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return err
	}
	syntax, err := parser.ParseFile(t.fset, name, src, parser.ParseComments)
	if err != nil {
		return err
	}
	f := file{name, strings.HasSuffix(name, "_test.go"), syntax}
	for i := range t.nested {
		if under(name, t.nested[i].folder) {
			t.nested[i].files = append(t.nested[i].files, f)
			return nil
		}
	}
	folder := path.Dir(name)
	i, known := slices.BinarySearchFunc(t.packages, folder, func(p pkg, f string) int { return strings.Compare(p.folder, f) })
	if !known {
		t.packages = slices.Insert(t.packages, i, pkg{folder: folder, room: roomOf(folder)})
	}
	t.packages[i].files = append(t.packages[i].files, f)
	return nil
}

// holds reports whether any package of the tree lies in the room.
func (t *Tree) holds(r *room) bool {
	return slices.ContainsFunc(t.packages, func(p pkg) bool { return p.room == r })
}

// importPath is the path an import names.
func importPath(spec *ast.ImportSpec) string {
	p, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		panic(fmt.Sprintf("the parser let a bad import through: %s", spec.Path.Value))
	}
	return p
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

// packageName is the name the package at an import path goes by, unless the file renames it.
func packageName(target string) string {
	if base := path.Base(target); !majorVersion.MatchString(base) {
		return base
	}
	return path.Base(path.Dir(target))
}

// importNames maps each name of a file to the import that it means.
func importNames(f *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range f.Imports {
		target := importPath(spec)
		name := packageName(target)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = target
	}
	return names
}

// qualifier is the import that x means in x.Name, or "" when x is no package.
func qualifier(x ast.Expr, names map[string]string) string {
	id, ok := x.(*ast.Ident)
	// The parser resolves what a file declares: a parameter called rand is no package.
	if !ok || id.Obj != nil {
		return ""
	}
	return names[id.Name]
}

// ourFolder is the folder of one of our own packages.
func ourFolder(target string) (string, bool) {
	if target == module {
		return ".", true
	}
	return strings.CutPrefix(target, module+"/")
}

// isModule reports whether an import path belongs to a module, ours or another's, rather than
// to the standard library: only modules begin with a host name.
func isModule(target string) bool {
	host, _, _ := strings.Cut(target, "/")
	return strings.Contains(host, ".")
}

// under reports whether a path is the prefix or lies below it.
func under(p, prefix string) bool {
	return p == prefix || strings.HasPrefix(p, prefix+"/")
}

func underAny(p string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return under(p, prefix) })
}
