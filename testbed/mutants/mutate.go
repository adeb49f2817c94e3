package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
)

// target is functions of a file, and the tests that should notice when one of their conditions
// changes.
type target struct {
	file  string
	funcs []string // all of the file if empty
	args  []string // of go test
}

// readTargets reads lines of a file, its functions and the arguments of go test, parted by "|".
func readTargets(file string) ([]target, error) {
	var all []target
	err := eachLine(file, func(line string) error {
		parts := strings.SplitN(line, "|", 3) // the arguments may hold more of them
		if len(parts) != 3 {
			return fmt.Errorf("%s: want FILE | FUNCTIONS | ARGUMENTS OF GO TEST, was %q", file, line)
		}
		all = append(all, target{strings.TrimSpace(parts[0]), strings.Fields(parts[1]), strings.Fields(parts[2])})
		return nil
	})
	return all, err
}

// mutant is one condition changed.
type mutant struct {
	change
	// File, function, place there and change: stable while the function stays as it is.
	name   string
	file   string
	args   []string // of go test
	number int      // among those that are compiled together, from 1
}

// change is a condition from one place of a file to another. The operator becomes another one;
// without one, the condition becomes its opposite.
type change struct {
	from, to, at int // at is the operator's place
	is, with     token.Token
}

// mutants changes each condition of the target's functions.
func (t target) mutants() ([]*mutant, error) {
	text, err := os.ReadFile(t.file)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, t.file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []*mutant
	missing := slices.Clone(t.funcs)
	for _, d := range parsed.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Body == nil || len(t.funcs) > 0 && !slices.Contains(t.funcs, f.Name.Name) {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == f.Name.Name })
		for i, c := range changes(set, f.Body) {
			all = append(all, &mutant{
				change: c, file: t.file, args: t.args,
				name: fmt.Sprintf("%s %s %d: %s", t.file, f.Name.Name, i+1, c.named(text)),
			})
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%s has no function %s", t.file, strings.Join(missing, ", "))
	}
	return all, nil
}

func (c change) named(text []byte) string {
	if c.with != token.ILLEGAL {
		return fmt.Sprintf("%s -> %s", c.is, c.with)
	}
	was := strings.Join(strings.Fields(string(text[c.from:c.to])), " ")
	return fmt.Sprintf("%s -> %s", clip(was), clip("!("+was+")"))
}

func clip(s string) string {
	if len(s) <= 60 {
		return s
	}
	return s[:57] + "..."
}

// other are the operators that a condition is changed to.
var other = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.LEQ, token.LEQ: token.LSS,
	token.GTR: token.GEQ, token.GEQ: token.GTR, token.LAND: token.LOR, token.LOR: token.LAND,
}

// changes are all ways to change one condition of the body: another operator, or the opposite of
// what has none.
func changes(set *token.FileSet, body *ast.BlockStmt) []change {
	var all []change
	at := func(p token.Pos) int { return set.Position(p).Offset }
	negate := func(e ast.Expr) {
		if e != nil && atom(e) {
			all = append(all, change{from: at(e.Pos()), to: at(e.End())})
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if op, is := other[n.Op]; is {
				all = append(all, change{at(n.Pos()), at(n.End()), at(n.OpPos), n.Op, op})
			}
			if n.Op == token.LAND || n.Op == token.LOR {
				negate(n.X)
				negate(n.Y)
			}
		case *ast.IfStmt:
			negate(n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, s := range n.Body.List {
					for _, e := range s.(*ast.CaseClause).List {
						negate(e)
					}
				}
			}
		}
		return true
	})
	return all
}

// atom reports whether a condition has no operator of its own that is changed.
func atom(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return false
	case *ast.ParenExpr:
		return atom(e.X)
	case *ast.UnaryExpr:
		return e.Op == token.NOT && atom(e.X)
	}
	return true
}
