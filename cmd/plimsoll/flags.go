package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// flagOf is a flag whose value is read, and refused with rule and value, by read.
type flagOf[T any] struct {
	into *T
	read func(string) (T, error)
	noun string
	text string
}

// addFlag gives a command a flag. If initial is not empty, it is the value when the flag is not
// given, and must be one that can be read.
func addFlag[T any](cmd *cobra.Command, into *T, read func(string) (T, error), name, noun, initial, usage string) {
	addShortFlag(cmd, into, read, name, "", noun, initial, usage)
}

// addShortFlag is addFlag for a flag that has a letter besides its name.
func addShortFlag[T any](cmd *cobra.Command, into *T, read func(string) (T, error), name, letter, noun, initial, usage string) {
	f := &flagOf[T]{into: into, read: read, noun: noun}
	if initial != "" {
		if err := f.Set(initial); err != nil {
			panic(fmt.Sprintf("--%s: its own default: %s", name, err))
		}
	}
	cmd.Flags().VarP(f, name, letter, usage)
}

// Set reads a value.
func (f *flagOf[T]) Set(text string) error {
	v, err := f.read(text)
	if err != nil {
		return err
	}
	*f.into, f.text = v, text
	return nil
}

// String is the value as it was written.
func (f *flagOf[T]) String() string { return f.text }

// Type is what the help calls the value.
func (f *flagOf[T]) Type() string { return f.noun }

// positive reads what parse does, and refuses 0 and less by one rule.
func positive[T ~int64](parse func(string) (T, error)) func(string) (T, error) {
	return func(text string) (T, error) {
		unsigned, minus := strings.CutPrefix(text, "-")
		v, err := parse(unsigned)
		switch {
		case err != nil:
			return parse(text) // for an error with the whole value
		case v == 0 || minus:
			return 0, fmt.Errorf("must be greater than 0, was %q", text)
		}
		return v, nil
	}
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("must be a duration with its unit, such as 30m or 24h, was %q", text)
	}
	return d, nil
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a time such as 2026-03-01T12:00:00Z, was %q", text)
	}
	return t, nil
}
