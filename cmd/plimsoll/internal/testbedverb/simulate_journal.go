package testbedverb

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// isJournal reports whether a text begins with a record of a journal.
func isJournal(text []byte) bool {
	first, _, _ := bytes.Cut(bytes.TrimSpace(text), []byte("\n"))
	records := 0
	err := loop.Read(bytes.NewReader(append(bytes.Clone(first), '\n')), func(*loop.Step) error { records++; return nil })
	return err == nil && records > 0
}

// journalLoad reads the requests a second that a journal has of a workload; no name takes that of
// the only one.
func journalLoad(name string, text []byte, workload string) (*recorded, error) {
	rates := map[string][]rateAt{} // by workload
	err := loop.Read(bytes.NewReader(text), func(s *loop.Step) error {
		for i := range s.Workloads {
			w := &s.Workloads[i]
			if w.Inputs != nil && w.Inputs.Arrivals != nil {
				rates[w.Workload] = append(rates[w.Workload], rateAt{s.Time, *w.Inputs.Arrivals, s.ID})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	there := slices.Sorted(maps.Keys(rates))
	switch {
	case len(there) == 0:
		return nil, fmt.Errorf("%s: must have measured requests a second of a workload; the journal has of no workload", name)
	case workload == "" && len(there) == 1:
		workload = there[0]
	case workload == "":
		return nil, fmt.Errorf("--workload: must be given, one of %s", strings.Join(there, ", "))
	case rates[workload] == nil:
		return nil, fmt.Errorf("--workload: must be one of %s, was %q", strings.Join(there, ", "), workload)
	}
	return meanOfMinutes(name+" of "+workload, rates[workload])
}

// meanOfMinutes makes counts of rates at any times: in each minute their mean counts.
func meanOfMinutes(name string, rates []rateAt) (*recorded, error) {
	load := &recorded{Trace: &replay.Trace{Name: name}, from: rates[0].at.Truncate(time.Minute)}
	minute, sum, n := load.from, 0.0, 0
	for i := range rates {
		r := &rates[i]
		if at := r.at.Truncate(time.Minute); !at.Equal(minute) {
			load.Counts = append(load.Counts, math.Round(sum/float64(n)*60))
			if next := minute.Add(time.Minute); !at.Equal(next) {
				return nil, fmt.Errorf("%s: %s: must be in the minute after that of the one before, %s; what was not measured is not made up: play the lines before it, or from it on",
					name, r.row, next.Format(time.RFC3339))
			}
			minute, sum, n = at, 0, 0
		}
		sum, n = sum+r.rate, n+1
	}
	load.Counts = append(load.Counts, math.Round(sum/float64(n)*60))
	return load, nil
}
