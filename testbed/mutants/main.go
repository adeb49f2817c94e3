// Command mutants changes one condition of the code at a time and runs the tests that should notice. It
// says which changes no test found. The tree is not touched: Go overlays the changed file.
//
//	go run ./testbed/mutants testbed/mutants/targets.txt
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// wanted is the share of mutants, equivalents aside, that tests must find.
const wanted = 0.95

func main() {
	parallel := flag.Int("parallel", 2, "how many mutants to test at a time")
	only := flag.String("only", "", "test only mutants whose name contains this")
	list := flag.Bool("list", false, "list the mutants and test none")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [flags] TARGETS")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *only, *parallel, *list); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run tests the mutants of all targets. Known equivalents are in the file equivalents.txt beside them.
func run(file, only string, parallel int, list bool) error {
	equivalent, err := readEquivalents(filepath.Join(filepath.Dir(file), "equivalents.txt"))
	if err != nil {
		return err
	}
	targets, err := readTargets(file)
	if err != nil {
		return err
	}
	var all []*mutant
	for _, t := range targets {
		found, err := t.mutants()
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	if err := allUsed(equivalent, all); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(m *mutant) bool { return !strings.Contains(m.name, only) })
	if list {
		for _, m := range all {
			fmt.Println(m.name)
		}
		return nil
	}
	return judge(all, equivalent, parallel)
}

// judge tests the mutants and prints what became of each.
func judge(all []*mutant, equivalent map[string]string, parallel int) error {
	var mu sync.Mutex
	count := map[outcome]int{}
	var wait sync.WaitGroup
	turn := make(chan struct{}, parallel)
	for _, m := range all {
		wait.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			began := time.Now()
			is, why := known, equivalent[m.name]
			if why == "" {
				is, why = m.test()
			}
			mu.Lock()
			defer mu.Unlock()
			count[is]++
			fmt.Printf("%-10s %5.1f s  %s  %s\n", is, time.Since(began).Seconds(), m.name, why)
		})
	}
	wait.Wait()
	tried := count[killed] + count[survived]
	fmt.Printf("%d mutants: %d killed, %d survived, %d known to be equivalent, %d did not compile\n",
		len(all), count[killed], count[survived], count[known], count[invalid])
	if float64(count[killed]) < wanted*float64(tried) {
		return fmt.Errorf("tests found %d of %d, fewer than %.0f %%", count[killed], tried, 100*wanted)
	}
	return nil
}

// outcome is what became of a mutant.
type outcome string

const (
	killed   outcome = "killed"
	survived outcome = "SURVIVED"
	known    outcome = "equivalent"
	invalid  outcome = "invalid"
)

// test runs the target's tests with the changed file in place of the original.
func (m *mutant) test() (outcome, string) {
	dir, err := os.MkdirTemp("", "mutant-*")
	if err != nil {
		return invalid, err.Error()
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left is in the folder for temporary files
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	original, err := filepath.Abs(m.file)
	if err != nil {
		return invalid, err.Error()
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{original: changed}})
	if err == nil {
		err = os.WriteFile(changed, m.text, 0o600)
	}
	if err == nil {
		err = os.WriteFile(overlay, text, 0o600)
	}
	if err != nil {
		return invalid, err.Error()
	}
	args := append([]string{"test", "-vet=off", "-overlay", overlay, "-count=1", "-failfast", "-timeout", "10m"}, m.tests...)
	out, err := exec.Command("go", args...).CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("no tests to run")):
		return invalid, lastLine(out)
	case err != nil:
		return killed, ""
	}
	return survived, ""
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}

// readEquivalents reads lines of a mutant's name, a tab, and why it changes nothing.
func readEquivalents(file string) (map[string]string, error) {
	equivalent := map[string]string{}
	err := eachLine(file, func(line string) error {
		name, why, ok := strings.Cut(line, "\t")
		if !ok || strings.TrimSpace(why) == "" {
			return fmt.Errorf("%s: want a mutant's name, a tab and why it changes nothing, was %q", file, line)
		}
		equivalent[name] = strings.TrimSpace(why)
		return nil
	})
	return equivalent, err
}

// allUsed refuses equivalents that name no mutant: the code has changed, and they have to be judged anew.
func allUsed(equivalent map[string]string, all []*mutant) error {
	for name := range equivalent {
		if !slices.ContainsFunc(all, func(m *mutant) bool { return m.name == name }) {
			return fmt.Errorf("equivalents.txt names %q, which is no mutant any more: remove the line", name)
		}
	}
	return nil
}

// eachLine reads what is no comment and not empty.
func eachLine(file string, do func(line string) error) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			if err := do(line); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}
