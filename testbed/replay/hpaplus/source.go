package hpaplus

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// Source is where a trace comes from: one that the program draws, or a recording from a day on.
type Source struct {
	Name  string
	Given string // as it was asked for

	trace *replay.Trace // nil where it is drawn
	drawn replay.Synthetic
}

// Shipped are the traces that come with the program.
func Shipped() []string {
	var out []string
	for _, s := range replay.Synthetics() {
		out = append(out, s.Name)
	}
	return out
}

// shipped is a trace that comes with the program.
func shipped(name string) Source {
	all := replay.Synthetics()
	i := slices.IndexFunc(all, func(s replay.Synthetic) bool { return s.Name == name })
	return Source{Name: name, Given: name, drawn: all[i]}
}

// Sources reads what a command line gives: the name of a trace that comes with the program, or a
// file, with @ and the days that windows begin on, day 0 being the first: nasa.csv@3,10.
func Sources(given string, read func(name string) (*replay.Trace, error)) ([]Source, error) {
	if slices.Contains(Shipped(), given) {
		return []Source{shipped(given)}, nil
	}
	file, days, err := splitDays(given)
	if err != nil {
		return nil, err
	}
	t, err := read(file)
	if err != nil {
		return nil, err
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	if days == nil {
		return []Source{{Name: name, Given: given, trace: t}}, nil
	}
	var out []Source
	for _, day := range days {
		w, err := t.Window(day, len(t.Counts)/minutesADay-day)
		if err != nil {
			return nil, err
		}
		at := strconv.Itoa(day)
		out = append(out, Source{Name: name + "@" + at, Given: file + "@" + at, trace: w})
	}
	return out, nil
}

// splitDays takes the days off a file's name. What is behind an @ and is no list of days is part
// of the name.
func splitDays(given string) (file string, days []int, err error) {
	at := strings.LastIndexByte(given, '@')
	if at < 0 || strings.Trim(given[at+1:], "0123456789,") != "" || given[at+1:] == "" {
		return given, nil, nil
	}
	for part := range strings.SplitSeq(given[at+1:], ",") {
		day, err := strconv.Atoi(part)
		if err != nil {
			return "", nil, fmt.Errorf("must be a file, or one with the days that windows begin on such as load.csv@3,10, was %q", given)
		}
		days = append(days, day)
	}
	return given[:at], days, nil
}

// trials is how often the trace is played.
func (s *Source) trials(e *Experiment) int {
	if s.trace == nil || e.Replay.Compare == Models {
		return e.Trials
	}
	return 1
}

// draw returns the days that are trained on and those that are judged. Every trial has another
// seed, and the same one for all that is compared.
func (s *Source) draw(trial int, e *Experiment) (*replay.Trace, error) {
	days := e.Replay.Train + e.Replay.Test
	if s.trace == nil {
		return s.drawn.Make(days, rand.NewPCG(e.Seed, uint64(trial)).Uint64()), nil
	}
	return s.trace.Window(0, days)
}

// process is the law that a trace is drawn by, or one that is fitted to it.
func (s *Source) process(e *Experiment) (capacity.MMPP, error) {
	if s.trace == nil && s.Name == "mmpp" {
		return replay.Fitted(), nil
	}
	t, err := s.draw(0, e)
	if err != nil {
		return capacity.MMPP{}, err
	}
	return replay.Fit(t, e.Replay.States)
}
