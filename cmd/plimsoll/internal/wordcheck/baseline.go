package wordcheck

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Baseline is how many findings are known, by "path rule".
type Baseline map[string]int

// Count is the baseline that just lets the findings pass.
func Count(found []Finding) Baseline {
	b := Baseline{}
	for _, f := range found {
		b[f.key()]++
	}
	return b
}

func (f Finding) key() string { return f.Path + " " + string(f.Rule) }

const preamble = "# What the word check found in each file, by rule. No number may grow; 'make words' lowers them.\n"

// String prints the baseline as ParseBaseline reads it.
func (b Baseline) String() string {
	var text strings.Builder
	text.WriteString(preamble)
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if b[key] > 0 {
			fmt.Fprintf(&text, "%s %d\n", key, b[key])
		}
	}
	return text.String()
}

// ParseBaseline reads lines of path, rule and count.
func ParseBaseline(text string) (Baseline, error) {
	b := Baseline{}
	for i, row := range strings.Split(text, "\n") {
		if row == "" || row[0] == '#' {
			continue
		}
		cut := max(0, strings.LastIndex(row, " "))
		n, err := strconv.Atoi(strings.TrimSpace(row[cut:]))
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("line %d: must be a path, a rule and a count above 0, was %q", i+1, row)
		}
		b[row[:cut]] = n
	}
	return b, nil
}

// Lower is the baseline with no count above those of now.
func (b Baseline) Lower(now Baseline) Baseline {
	lowered := Baseline{}
	for key, n := range b {
		lowered[key] = min(n, now[key])
	}
	return lowered
}

// Compare returns what must be fixed: findings beyond the baseline, and a baseline that is too
// high.
func (b Baseline) Compare(found []Finding) []string {
	now := Count(found)
	var faults []string
	for _, f := range found {
		if n, known := now[f.key()], b[f.key()]; n > known {
			faults = append(faults, fmt.Sprintf("%s (%d found, %d in the baseline)", f, n, known))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(b)) {
		if now[key] < b[key] {
			faults = append(faults, fmt.Sprintf("%s: %d found, %d in the baseline: lower the baseline: run `make words`", key, now[key], b[key]))
		}
	}
	return faults
}
