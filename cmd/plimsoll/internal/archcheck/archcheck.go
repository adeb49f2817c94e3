// Package archcheck finds where a source tree breaks the rules of the house.
//
// The rules are the data in rules.go: which rooms there are, what each may import, and what the
// rooms that decide must not touch. They are read off the syntax alone, so that the check needs
// neither a build nor a network, and runs on a fixture tree as it does on the real one. It also
// measures how large the rooms are. Only tests and make house use this package.
package archcheck

import (
	"cmp"
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Violation is one place where the tree breaks a rule.
type Violation struct {
	Path   string // the file or folder, from the root
	Line   int    // 0 when the folder itself is meant
	Rule   Rule
	Found  string // what was found there
	Reason string // why it must not be
}

// Where is the place, as file:line or as the folder.
func (v Violation) Where() string {
	if v.Line == 0 {
		return v.Path
	}
	return v.Path + ":" + strconv.Itoa(v.Line)
}

// String prints the violation as a line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s (rule %q): %s", v.Where(), v.Found, v.Rule, v.Reason)
}

// Check returns every violation in the tree, by place.
func (t *Tree) Check() []Violation {
	c := checker{tree: t}
	c.topFolders()
	for i := range t.packages {
		c.pkg(&t.packages[i])
	}
	for i := range t.nested {
		c.nested(&t.nested[i])
	}
	slices.SortFunc(c.found, func(a, b Violation) int {
		return cmp.Or(
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Found, b.Found))
	})
	return c.found
}

type checker struct {
	tree  *Tree
	found []Violation
}

// at reports a violation at a node of a file.
func (c *checker) at(f *file, n ast.Node, r Rule, found, reason string) {
	line := c.tree.fset.Position(n.Pos()).Line
	c.found = append(c.found, Violation{f.path, line, r, found, reason})
}

func (c *checker) topFolders() {
	for _, name := range c.tree.top {
		if !slices.Contains(topFolders, name) {
			c.found = append(c.found, Violation{name, 0, TopFolder, "folder " + name, reasons[TopFolder]})
		}
	}
}

// nested checks a module inside ours: that it is a known one, and that it imports nothing of ours
// unless it may.
func (c *checker) nested(m *pkg) {
	if !slices.Contains(modules, m.folder) {
		c.found = append(c.found, Violation{m.folder, 0, Nested, "module " + m.folder, reasons[Nested]})
	}
	if slices.Contains(besides, m.folder) {
		return
	}
	for i := range m.files {
		f := &m.files[i]
		for _, spec := range f.syntax.Imports {
			if folder, ours := ourFolder(importPath(spec)); ours && !under(folder, m.folder) {
				c.at(f, spec, Nested, "imports "+folder, reasons[Nested])
			}
		}
	}
}

// pkg checks one package. A folder that should not be there at all is reported once, and not
// again for what it imports.
func (c *checker) pkg(p *pkg) {
	if r, found := misplaced(p); r != "" {
		c.found = append(c.found, Violation{p.folder, 0, r, found, reasons[r]})
	}
	if slices.Contains(goless, p.folder) {
		return
	}
	c.doc(p)
	for i := range p.files {
		f := &p.files[i]
		for _, spec := range f.syntax.Imports {
			c.imported(p, f, spec)
		}
		if p.room != nil && !f.test {
			c.used(p, f)
		}
	}
}

// misplaced says which rule the folder itself breaks, if any.
func misplaced(p *pkg) (Rule, string) {
	parts := strings.Split(p.folder, "/")
	heap := slices.IndexFunc(parts, func(s string) bool { return slices.Contains(heaps, s) })
	switch {
	case slices.Contains(goless, p.folder):
		return NoGoFiles, path.Base(p.files[0].path)
	case heap >= 0:
		return FolderName, "folder " + parts[heap]
	case p.room == nil && slices.Contains(topFolders, parts[0]):
		return NoRoom, "package " + p.folder
	}
	return "", ""
}

// doc wants exactly one package comment. Folders with nothing but tests need none.
func (c *checker) doc(p *pkg) {
	var code, docs []*file
	for i := range p.files {
		f := &p.files[i]
		if f.test {
			continue
		}
		code = append(code, f)
		if f.syntax.Doc.Text() != "" {
			docs = append(docs, f)
		}
	}
	if len(code) > 0 && len(docs) == 0 {
		c.at(code[0], code[0].syntax.Name, PackageDoc, "no package comment", reasons[PackageDoc])
	}
	for _, f := range docs[min(1, len(docs)):] {
		c.at(f, f.syntax.Name, PackageDoc, "a second package comment, after "+path.Base(docs[0].path), reasons[PackageDoc])
	}
}

// imported checks one import for where it leads.
func (c *checker) imported(p *pkg, f *file, spec *ast.ImportSpec) {
	target := importPath(spec)
	if spec.Name != nil && spec.Name.Name == "." {
		c.at(f, spec, DotImport, target, reasons[DotImport])
	}
	if p.room == nil {
		return
	}
	if folder, ours := ourFolder(target); ours {
		if r, why := ourImport(p, f.test, folder); r != "" {
			c.at(f, spec, r, "imports "+folder, why)
		}
	} else if isModule(target) {
		if why := moduleImport(p.room, f.test, target); why != "" {
			c.at(f, spec, Modules, "imports "+target, why)
		}
	} else if !f.test {
		c.standardImport(p, f, spec)
	}
}

// ourImport judges an import of one of our own packages: the rule it breaks and why, or "".
func ourImport(p *pkg, test bool, folder string) (Rule, string) {
	from, to := p.room, roomOf(folder)
	if to == nil || to == from {
		return "", "" // a package without a room is reported itself
	}
	if test && (to.floor == pure || to.floor == aid || slices.Contains(from.tests, to.folder)) {
		return "", ""
	}
	switch {
	case slices.ContainsFunc(from.imports, to.goesBy):
		return "", ""
	case under(folder, "testbed"):
		return Testbed, reasons[Testbed]
	case from.floor == adapter && to.floor == adapter:
		return Adapters, reasons[Adapters]
	}
	return Imports, from.why
}

// moduleImport judges an import of another module: why it must not be, or "".
func moduleImport(r *room, test bool, target string) string {
	if underAny(target, testModules) {
		if test || r.floor == aid || r.floor == world || r.floor == command {
			return ""
		}
		return testModulesWhy
	}
	if (r.floor == pure || r.floor == once) && !underAny(target, pureModules) {
		return pureModulesWhy
	}
	for _, m := range moduleHomes {
		if underAny(target, m.modules) {
			if underAny(r.folder, m.homes) {
				return ""
			}
			return m.why
		}
	}
	return ""
}

// standardImport checks an import of the standard library against the bans on whole packages.
func (c *checker) standardImport(p *pkg, f *file, spec *ast.ImportSpec) {
	target := importPath(spec)
	for _, b := range bans {
		if b.whole() && b.holds(p.room) && b.covers(target) {
			c.at(f, spec, b.rule, "imports "+target, b.why)
		}
	}
}

// used checks what a file takes out of its imports, and whether it starts goroutines.
func (c *checker) used(p *pkg, f *file) {
	names := importNames(f.syntax)
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if goroutines.holds(p.room) {
				c.at(f, n, goroutines.rule, "go statement", goroutines.why)
			}
		case *ast.SelectorExpr:
			if target := qualifier(n.X, names); target != "" {
				c.selected(p, f, n, target)
			}
		}
		return true
	})
}

// selected checks one name taken from the package at target.
func (c *checker) selected(p *pkg, f *file, sel *ast.SelectorExpr, target string) {
	for _, b := range bans {
		if !b.whole() && b.holds(p.room) && b.covers(target) && b.names(sel.Sel.Name) {
			c.at(f, sel, b.rule, packageName(target)+"."+sel.Sel.Name, b.why)
		}
	}
}
