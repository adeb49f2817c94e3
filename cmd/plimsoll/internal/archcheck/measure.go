package archcheck

import (
	"cmp"
	"go/ast"
	"go/token"
	"maps"
	"slices"
)

// Measure is how large a package is, without its tests and what is generated.
type Measure struct {
	Folder string // from the root
	Room   string // "" where the house has none for it
	Lines  int
	Files  int
	// Exported counts the names at the top of its files, and no methods.
	Exported int
	Methods  []Count // of its types, the most first
	Fields   []Count // of its structs, the most first
	// Upward of its References from file to file point up, in the order of files in which few do.
	// Calls of exported methods are not seen: without types, whose they are is not known.
	References, Upward int
}

// Count is how many of something a type has.
type Count struct {
	Type string
	N    int
}

// Measure measures the packages of the house, by folder. It passes over modules inside it.
func (t *Tree) Measure() []Measure {
	var all []Measure
	for _, p := range t.packages {
		p.files = slices.DeleteFunc(slices.Clone(p.files), func(f file) bool { return f.test || ast.IsGenerated(f.syntax) })
		if len(p.files) > 0 {
			all = append(all, t.measure(&p))
		}
	}
	return all
}

func (t *Tree) measure(p *pkg) Measure {
	m := Measure{Folder: p.folder, Files: len(p.files)}
	if p.room != nil {
		m.Room = p.room.folder
	}
	methods, fields := map[string]int{}, map[string]int{}
	for i := range p.files {
		f := p.files[i].syntax
		m.Lines += t.fset.File(f.Pos()).LineCount()
		for _, d := range declared(f) {
			if ast.IsExported(d.name) && d.of == "" {
				m.Exported++
			}
			if d.of != "" {
				methods[d.of]++
			}
			if d.fields > 0 {
				fields[d.name] = d.fields
			}
		}
	}
	m.Methods, m.Fields = counts(methods), counts(fields)
	m.References, m.Upward = upward(references(p.files))
	return m
}

func counts(of map[string]int) []Count {
	var all []Count
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, Count{name, of[name]})
	}
	slices.SortStableFunc(all, func(a, b Count) int { return cmp.Compare(b.N, a.N) })
	return all
}

// declaration is a name at the top of a file.
type declaration struct {
	name   string
	of     string // a method's type
	fields int    // of a struct
}

func declared(f *ast.File) []declaration {
	var all []declaration
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			all = append(all, declaration{name: d.Name.Name, of: receiver(d)})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				all = append(all, specified(s)...)
			}
		}
	}
	return all
}

func specified(s ast.Spec) []declaration {
	switch s := s.(type) {
	case *ast.TypeSpec:
		d := declaration{name: s.Name.Name}
		if structure, is := s.Type.(*ast.StructType); is {
			d.fields = structure.Fields.NumFields()
		}
		return []declaration{d}
	case *ast.ValueSpec:
		var all []declaration
		for _, n := range s.Names {
			all = append(all, declaration{name: n.Name})
		}
		return all
	}
	return nil
}

// receiver is the type that a method is of, or "".
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	x := d.Recv.List[0].Type
	for {
		switch of := x.(type) {
		case *ast.StarExpr:
			x = of.X
		case *ast.IndexExpr:
			x = of.X
		case *ast.IndexListExpr:
			x = of.X
		case *ast.Ident:
			return of.Name
		default:
			return ""
		}
	}
}

// references counts how often a file of a package names what another declares.
func references(files []file) [][]int {
	tops, methods := map[string]int{}, map[string]int{}
	for i := range files {
		for _, d := range declared(files[i].syntax) {
			if d.of == "" {
				tops[d.name] = i
			} else if at, twice := methods[d.name]; twice && at != i || ast.IsExported(d.name) {
				methods[d.name] = -1
			} else {
				methods[d.name] = i
			}
		}
	}
	refs := make([][]int, len(files))
	for i := range files {
		refs[i] = make([]int, len(files))
		for _, id := range files[i].syntax.Unresolved {
			if at, known := tops[id.Name]; known && at != i {
				refs[i][at]++
			}
		}
		ast.Inspect(files[i].syntax, func(n ast.Node) bool {
			if s, is := n.(*ast.SelectorExpr); is && !token.IsExported(s.Sel.Name) {
				if at, known := methods[s.Sel.Name]; known && at >= 0 && at != i {
					refs[i][at]++
				}
			}
			return true
		})
	}
	return refs
}

// upward counts pairs of files of which one names the other, and those that point up when the
// files are in a good order. A file that no other names comes first, or else the one that names
// the most others beyond those that name it.
func upward(refs [][]int) (pairs, up int) {
	left := make([]int, len(refs))
	for i := range left {
		left[i] = i
	}
	for len(left) > 0 {
		first := slices.MaxFunc(left, func(a, b int) int { return cmp.Compare(lead(refs, left, a), lead(refs, left, b)) })
		left = slices.DeleteFunc(left, func(i int) bool { return i == first })
		for _, i := range left {
			if refs[first][i] > 0 {
				pairs++
			}
			if refs[i][first] > 0 {
				pairs++
				up++
			}
		}
	}
	return pairs, up
}

// lead is how far up a file belongs among those that are left.
func lead(refs [][]int, left []int, file int) int {
	names, named := 0, 0
	for _, i := range left {
		names, named = names+min(refs[file][i], 1), named+min(refs[i][file], 1)
	}
	if named == 0 {
		return len(refs)
	}
	return names - named
}
