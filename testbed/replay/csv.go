package replay

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// columns are what a trace's file has, in their order.
const columns = "minute,count"

// mostRequests is the largest count that is read: above it not every whole number is a float.
const mostRequests = 1<<53 - 1

// ReadCSV reads a trace: a line "minute,count" for each minute from 0 on, before which the columns
// may be named. Nothing is put right: a minute that is missing was not measured and one that comes
// twice was measured wrongly, and what the load was then is for whoever recorded it to say. Faults
// name the line, and the name that is given.
func ReadCSV(name string, r io.Reader) (*Trace, error) {
	t := &Trace{Name: name}
	lines := bufio.NewScanner(r)
	n := 1
	for ; lines.Scan(); n++ {
		line := lines.Text()
		if n == 1 && !strings.ContainsAny(line, "0123456789") {
			if trimmed(line) != columns {
				return nil, fmt.Errorf("%s line 1: %w", name, unknownColumns(line))
			}
			continue
		}
		count, err := countOf(line, len(t.Counts))
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w", name, n, err)
		}
		t.Counts = append(t.Counts, float64(count))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s line %d: %w", name, n, err)
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return t, nil
}

// trimmed is a line without the space around its cells.
func trimmed(line string) string {
	cells := strings.Split(line, ",")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	return strings.Join(cells, ",")
}

func unknownColumns(line string) error {
	return fmt.Errorf("columns: must be %s, was %q", columns, line)
}

// countOf reads a line, which must be that of minute want.
func countOf(line string, want int) (count uint64, err error) {
	cells := strings.Split(trimmed(line), ",")
	if len(cells) != 2 {
		return 0, unknownColumns(line)
	}
	minute, err := strconv.Atoi(cells[0])
	if err != nil {
		return 0, fmt.Errorf("minute: must be a whole number, was %q", cells[0])
	}
	if minute != want {
		return 0, outOfPlace(minute, want)
	}
	if count, err = strconv.ParseUint(cells[1], 10, 64); err != nil || count > mostRequests {
		return 0, fmt.Errorf("count: must be a whole number from 0 to %d, was %q", uint64(mostRequests), cells[1])
	}
	return count, nil
}

// outOfPlace says what is wrong with a minute that is not the one to come.
func outOfPlace(minute, want int) error {
	switch {
	case want == 0:
		return fmt.Errorf("minute: must be 0, for it is the first, was %d", minute)
	case minute > want:
		return fmt.Errorf("minute: must be %d, for it is the next, was %d: a minute that was not measured is no 0", want, minute)
	case minute >= 0:
		return fmt.Errorf("minute: must be %d, for it is the next, was %d, which is there already", want, minute)
	default:
		return fmt.Errorf("minute: must be %d, for it is the next, was %d", want, minute)
	}
}
