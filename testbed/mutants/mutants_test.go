package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestEveryConditionIsChangedOnce(t *testing.T) {
	all := must.Get(target{file: "testdata/gate.go", funcs: []string{"open"}}.mutants())(t)
	const of = "testdata/gate.go open "
	want := []string{
		of + "1: shut -> !(shut)", of + "2: && -> ||", of + "3: !shut -> !(!shut)", of + "4: < -> <=",
		of + "5: == -> !=", of + "6: || -> &&", of + "7: shut -> !(shut)", of + "8: > -> >=",
	}
	var got []string
	for _, m := range all {
		got = append(got, m.name)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTargetsNameFunctionsThatAreThere(t *testing.T) {
	var targets []target
	for _, file := range []string{"targets.txt", "decisions.txt"} {
		some := must.Get(readTargets(file))(t)
		targets = append(targets, some...)
	}
	t.Chdir("../..")
	var all []*mutant
	for _, target := range targets {
		found, err := target.mutants()
		if err != nil {
			t.Error(err)
		}
		all = append(all, found...)
	}
	equivalent := must.Get(readEquivalents("testbed/mutants/equivalents.txt"))(t)
	if err := allUsed(equivalent, all); err != nil {
		t.Error(err)
	}
	if len(all) == 0 {
		t.Error("no mutants")
	}
}

func TestEachConditionAsksForItsMutant(t *testing.T) {
	text := []byte("package p\n\nfunc f(a, b int, c bool) bool {\n\treturn a < b && !c\n}\n")
	file := filepath.Join(t.TempDir(), "p.go")
	must.Do(t, os.WriteFile(file, text, 0o600))
	all := must.Get(target{file: file}.mutants())(t)
	for i, m := range all {
		m.number = i + 1
	}
	const less = "(theMutant == 3 && ((a )<=( b)) || theMutant != 3 && ((a )<( b)))"
	const not = "((theMutant == 2) != (!c))"
	const want = "package p\n\nfunc f(a, b int, c bool) bool {\n\treturn " +
		"(theMutant == 1 && ((" + less + " )||( " + not + ")) || theMutant != 1 && ((" + less + " )&&( " + not + ")))\n}\n"
	if d := cmp.Diff(want, withAll(text, all)); d != "" {
		t.Error(d)
	}
}
