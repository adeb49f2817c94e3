package main

import (
	"go/parser"
	"go/token"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEveryConditionIsChangedOnce(t *testing.T) {
	all, err := target{file: "testdata/gate.go", funcs: []string{"open"}}.mutants()
	if err != nil {
		t.Fatal(err)
	}
	const of = "testdata/gate.go open "
	want := []string{
		of + "1: shut -> !(shut)", of + "2: && -> ||", of + "3: !shut -> !(!shut)", of + "4: < -> <=",
		of + "5: == -> !=", of + "6: || -> &&", of + "7: shut -> !(shut)", of + "8: > -> >=",
	}
	var got []string
	for _, m := range all {
		got = append(got, m.name)
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, m.text, 0); err != nil {
			t.Errorf("%s does not parse: %v", m.name, err)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestTargetsNameFunctionsThatAreThere(t *testing.T) {
	targets, err := readTargets("targets.txt")
	if err != nil {
		t.Fatal(err)
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
	equivalent, err := readEquivalents("testbed/mutants/equivalents.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := allUsed(equivalent, all); err != nil {
		t.Error(err)
	}
	if len(all) == 0 {
		t.Error("no mutants")
	}
}
