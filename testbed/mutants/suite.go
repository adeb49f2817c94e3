package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// variable is where a test's process reads the number of the mutant that it makes.
const variable = "PLIMSOLL_MUTANT"

// suite is the compiled tests of the packages, with the mutants in them.
type suite struct {
	tests map[string]string        // by package
	took  map[string]time.Duration // the tests without a mutant, by arguments
}

// build compiles the tests that the mutants' targets name, and sees that they pass without a
// mutant.
func build(dir string, all []*mutant) (*suite, error) {
	for i, m := range all {
		m.number = i + 1
	}
	overlay, err := write(dir, all)
	if err != nil {
		return nil, err
	}
	s := &suite{map[string]string{}, map[string]time.Duration{}}
	for _, m := range all {
		if s.took[key(m)] > 0 {
			continue
		}
		packages, _ := split(m.args)
		for _, p := range packages {
			if s.tests[p] != "" {
				continue
			}
			s.tests[p] = filepath.Join(dir, strconv.Itoa(len(s.tests))+".test")
			out, err := exec.Command("go", "test", "-vet=off", "-overlay", overlay, "-c", "-o", s.tests[p], p).CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("compile the tests of %s: %w\n%s", p, err, out)
			}
		}
		began := time.Now()
		out, err := s.run(m, 0, 10*time.Minute)
		if err != nil || strings.Contains(out, "no tests to run") {
			return nil, fmt.Errorf("without a mutant, go test %s: %w\n%s", key(m), err, out)
		}
		s.took[key(m)] = time.Since(began)
	}
	return s, nil
}

func key(m *mutant) string { return strings.Join(m.args, " ") }

// split parts the arguments of go test into packages and flags for their tests.
func split(args []string) (packages, flags []string) {
	for _, a := range args {
		if name, is := strings.CutPrefix(a, "-"); is {
			flags = append(flags, "-test."+name)
		} else {
			packages = append(packages, a)
		}
	}
	return packages, flags
}

// run runs the tests of a mutant's target while the mutant of a number is made. All packages have
// laws: their cases are the same in each run, and those that fail are not kept.
func (s *suite) run(m *mutant, number int, limit time.Duration, more ...string) (string, error) {
	packages, flags := split(m.args)
	flags = append(flags, "-test.failfast", "-test.timeout="+limit.String(), "-rapid.seed=1", "-rapid.nofailfile")
	flags = append(flags, more...)
	var all strings.Builder
	for _, p := range packages {
		ctx, cancel := context.WithTimeout(context.Background(), limit+time.Minute)
		c := exec.CommandContext(ctx, s.tests[p], flags...)
		c.Dir, c.Env = p, append(os.Environ(), variable+"="+strconv.Itoa(number))
		out, err := c.CombinedOutput()
		cancel()
		all.Write(out)
		if err != nil {
			return all.String(), err
		}
	}
	return all.String(), nil
}

// test says whether the tests find the mutant. A loop that no longer ends is found, too.
func (s *suite) test(m *mutant) outcome {
	for _, cases := range []string{"5", "30"} { // most that laws find takes few
		if _, err := s.run(m, m.number, 3*s.took[key(m)]+30*time.Second, "-rapid.checks="+cases); err != nil {
			return killed
		}
	}
	return survived
}

// write writes the files with all mutants in them, and the overlay that puts them in place of the
// originals.
func write(dir string, all []*mutant) (overlay string, err error) {
	replace := map[string]string{}
	put := func(place string, text []byte) error {
		place, err := filepath.Abs(place)
		if err != nil {
			return err
		}
		if replace[place] == "" {
			replace[place] = filepath.Join(dir, strconv.Itoa(len(replace))+".go")
		}
		return os.WriteFile(replace[place], text, 0o600)
	}
	of := map[string][]*mutant{}
	for _, m := range all {
		of[m.file] = append(of[m.file], m)
	}
	for file, mutants := range of {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.PackageClauseOnly)
		if err != nil {
			return "", err
		}
		err = errors.Join(
			put(file, []byte(withAll(text, mutants))),
			put(filepath.Join(filepath.Dir(file), "the_mutant.go"), fmt.Appendf(nil, which, parsed.Name, variable)))
		if err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

// which is the file that reads which mutant a process makes.
const which = `package %s

import (
	"os"
	"strconv"
)

var theMutant, _ = strconv.Atoi(os.Getenv(%q))
`

// withAll is the text of a file in which each condition asks whether its mutant is to be made.
func withAll(text []byte, all []*mutant) string {
	slices.SortFunc(all, func(a, b *mutant) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to // what holds others comes before them
	})
	return part(text, 0, len(text), all)
}

// part is the text from one place to another, of which all changes are within.
func part(text []byte, from, to int, all []*mutant) string {
	var b strings.Builder
	for len(all) > 0 {
		m, n := all[0], 1
		for n < len(all) && all[n].from < m.to {
			n++
		}
		b.Write(text[from:m.from])
		b.WriteString(m.both(text, all[1:n]))
		from, all = m.to, all[n:]
	}
	b.Write(text[from:to])
	return b.String()
}

// both is the condition as it was and as it is changed, and which of them applies.
func (m *mutant) both(text []byte, inside []*mutant) string {
	if m.with == token.ILLEGAL || m.is == token.EQL || m.is == token.NEQ {
		return fmt.Sprintf("((theMutant == %d) != (%s))", m.number, part(text, m.from, m.to, inside))
	}
	n := 0
	for n < len(inside) && inside[n].from < m.at {
		n++
	}
	left, right := part(text, m.from, m.at, inside[:n]), part(text, m.at+len(m.is.String()), m.to, inside[n:])
	return fmt.Sprintf("(theMutant == %d && ((%s)%s(%s)) || theMutant != %[1]d && ((%[2]s)%[5]s(%[4]s)))",
		m.number, left, m.with, right, m.is)
}
