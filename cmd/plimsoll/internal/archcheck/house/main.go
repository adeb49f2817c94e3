// House prints how large the rooms of the house are, and which packages and types are beyond their
// limits. Given a commit, it prints what was so then, beside.
package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing/fstest"
	"text/tabwriter"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/archcheck"
)

// What a package and a type may have.
const (
	maxFiles    = 25
	maxExported = 60
	maxMethods  = 40
	maxFields   = 20
	maxUpward   = 0.1 // of the references from file to file
	few         = 3.  // references that may point up in any package
)

func main() {
	before := flag.String("before", "", "a commit to compare with")
	flag.Parse()
	if err := run(*before); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func run(before string) error {
	now, err := measure(os.DirFS("."))
	if err != nil {
		return err
	}
	var then []archcheck.Measure
	if before != "" {
		tree, err := commit(before)
		if err != nil {
			return err
		}
		if then, err = measure(tree); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	rooms(w, then, now)
	fmt.Fprintf(w, "\nbeyond a limit\tfiles (%d)\texported (%d)\tupward (%.0f %%)\ttypes (%d methods, %d fields)\n",
		maxFiles, maxExported, 100*maxUpward, maxMethods, maxFields)
	for i := range now {
		beyond(w, find(then, now[i].Folder), &now[i])
	}
	return w.Flush()
}

func measure(tree fs.FS) ([]archcheck.Measure, error) {
	t, err := archcheck.Load(tree)
	if err != nil {
		return nil, err
	}
	return t.Measure(), nil
}

// commit is the tree of a commit.
func commit(name string) (fs.FS, error) {
	text, err := exec.Command("git", "archive", "--format=tar", name).Output()
	if err != nil {
		return nil, fmt.Errorf("git archive %s: %w", name, err)
	}
	tree := fstest.MapFS{}
	for r := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return tree, nil
		}
		if err != nil {
			return nil, fmt.Errorf("git archive %s: %w", name, err)
		}
		if base := path.Base(h.Name); strings.HasSuffix(base, ".go") || base == "go.mod" {
			data, err := io.ReadAll(r)
			if err != nil {
				return nil, fmt.Errorf("git archive %s: %w", name, err)
			}
			tree[h.Name] = &fstest.MapFile{Data: data}
		}
	}
}

// rooms prints the lines of each room, and of all.
func rooms(w io.Writer, then, now []archcheck.Measure) {
	fmt.Fprintln(w, "room\tlines\tbefore\tchange")
	was, is := lines(then), lines(now)
	names := maps.Clone(was)
	maps.Copy(names, is)
	for _, room := range slices.Sorted(maps.Keys(names)) {
		row(w, cmp.Or(room, "no room"), was[room], is[room], then != nil)
	}
	row(w, "all", sum(was), sum(is), then != nil)
}

func row(w io.Writer, name string, was, is int, compared bool) {
	if !compared {
		fmt.Fprintf(w, "%s\t%d\n", name, is)
		return
	}
	change := "new"
	if was > 0 {
		change = fmt.Sprintf("%+.1f %%", 100*float64(is-was)/float64(was))
	}
	fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", name, is, was, change)
}

func lines(of []archcheck.Measure) map[string]int {
	by := map[string]int{}
	for _, m := range of {
		by[m.Room] += m.Lines
	}
	return by
}

func sum(of map[string]int) (all int) {
	for _, n := range of {
		all += n
	}
	return all
}

func find(all []archcheck.Measure, folder string) *archcheck.Measure {
	if i := slices.IndexFunc(all, func(m archcheck.Measure) bool { return m.Folder == folder }); i >= 0 {
		return &all[i]
	}
	return &archcheck.Measure{}
}

// beyond prints a package that is beyond a limit, with what it was before.
func beyond(w io.Writer, then, now *archcheck.Measure) {
	types := slices.Concat(over(now.Methods, maxMethods, "methods"), over(now.Fields, maxFields, "fields"))
	tangled := float64(now.Upward) > max(few, maxUpward*float64(now.References))
	if now.Files <= maxFiles && now.Exported <= maxExported && !tangled && len(types) == 0 {
		return
	}
	was := func(n int) string {
		if then.Folder == "" {
			return ""
		}
		return fmt.Sprintf(" (%d)", n)
	}
	fmt.Fprintf(w, "%s\t%d%s\t%d%s\t%d of %d%s\t%s\n", now.Folder, now.Files, was(then.Files), now.Exported, was(then.Exported),
		now.Upward, now.References, was(then.Upward), strings.Join(types, ", "))
}

func over(of []archcheck.Count, most int, what string) []string {
	var all []string
	for _, c := range of {
		if c.N > most {
			all = append(all, fmt.Sprintf("%s %d %s", c.Type, c.N, what))
		}
	}
	return all
}
