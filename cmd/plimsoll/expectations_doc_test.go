package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// Every expectation and feature has a test that is there, or says what is missing, and why.
func TestExpectationsAreHeldByTestsThatAreThere(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../docs/expectations.md"))(t))
	there, rows := testsBelow(t, "../.."), []int{}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "## ") {
			rows = append(rows, 0)
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number, err := strconv.Atoi(strings.TrimSpace(cells[0]))
		if err != nil {
			continue
		}
		last := &rows[len(rows)-1]
		if *last++; number != *last || len(cells) != 4 {
			t.Fatalf("row %d: want number %d and four cells: %s", number, *last, line)
		}
		held := strings.TrimSpace(cells[3])
		name := strings.Trim(held, "`")
		if script, is := strings.CutPrefix(name, "script:"); is {
			name = script + ".txt"
		}
		if !strings.HasPrefix(held, "missing: ") && !there[name] {
			t.Errorf("row %d: there is no test %q", number, name)
		}
	}
	if want := []int{44, 72, 63}; !slices.Equal(rows, want) {
		t.Errorf("the tables have %v rows, want %v", rows, want)
	}
}
