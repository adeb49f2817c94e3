// Command mutants changes one condition of the code at a time and runs the tests that should
// notice. It says which changes no test found. The tests are compiled once, with all changes in
// them, and a process of them makes the one that its environment names. The tree is not touched:
// Go overlays the files.
//
//	go run ./testbed/mutants testbed/mutants/targets.txt
package main

import (
	"bufio"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	parallel := flag.Int("parallel", 2, "how many mutants to test at a time")
	only := flag.String("only", "", "test only mutants whose name this regular expression matches")
	sample := flag.Int("sample", 0, "test only this many mutants, drawn at random; 0 for all")
	seed := flag.Uint64("seed", 1, "the seed of the sample")
	wanted := flag.Float64("wanted", 0.95, "the share of mutants, equivalents aside, that tests must find")
	list := flag.Bool("list", false, "list the mutants and test none")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: mutants [flags] TARGETS")
		os.Exit(2)
	}
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants: -only:", err)
		os.Exit(2)
	}
	err = run(flag.Arg(0), *wanted, *parallel, *list, func(all []*mutant) []*mutant {
		all = slices.DeleteFunc(all, func(m *mutant) bool { return !chosen.MatchString(m.name) })
		return draw(all, *sample, *seed)
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// draw is a sample of the mutants, in their order.
func draw(all []*mutant, sample int, seed uint64) []*mutant {
	if sample == 0 || sample >= len(all) {
		return all
	}
	drawn := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:sample]
	slices.Sort(drawn)
	some := make([]*mutant, sample)
	for i, n := range drawn {
		some[i] = all[n]
	}
	return some
}

// run tests those mutants of the targets that are chosen. Known equivalents are in the file
// equivalents.txt beside them.
func run(file string, wanted float64, parallel int, list bool, choose func([]*mutant) []*mutant) error {
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
	all = choose(all)
	if list {
		for _, m := range all {
			fmt.Println(m.name)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "mutants-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // what is left is in the folder for temporary files
	s, err := build(dir, all)
	if err != nil {
		return err
	}
	return s.judge(all, equivalent, wanted, parallel)
}

// judge tests the mutants and prints what became of each.
func (s *suite) judge(all []*mutant, equivalent map[string]string, wanted float64, parallel int) error {
	var mu sync.Mutex
	count, files := map[outcome]int{}, map[string]map[outcome]int{}
	var wait sync.WaitGroup
	turn := make(chan struct{}, parallel)
	for _, m := range all {
		wait.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn }()
			began := time.Now()
			is, why := known, equivalent[m.name]
			if why == "" {
				is = s.test(m)
			}
			mu.Lock()
			defer mu.Unlock()
			count[is]++
			if files[m.file] == nil {
				files[m.file] = map[outcome]int{}
			}
			files[m.file][is]++
			fmt.Printf("%-10s %5.1f s  %s  %s\n", is, time.Since(began).Seconds(), m.name, why)
		})
	}
	wait.Wait()
	for _, file := range slices.Sorted(maps.Keys(files)) {
		of := files[file]
		fmt.Printf("%-36s %3d of %3d killed\n", file, of[killed], of[killed]+of[survived])
	}
	tried := count[killed] + count[survived]
	fmt.Printf("%d mutants: %d killed, %d survived, %d known to be equivalent\n",
		len(all), count[killed], count[survived], count[known])
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
)

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

// allUsed refuses equivalents of the mutants' files that name no mutant: the code has changed,
// and they have to be judged anew.
func allUsed(equivalent map[string]string, all []*mutant) error {
	for name := range equivalent {
		file, _, _ := strings.Cut(name, " ")
		if slices.ContainsFunc(all, func(m *mutant) bool { return m.file == file }) &&
			!slices.ContainsFunc(all, func(m *mutant) bool { return m.name == name }) {
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
