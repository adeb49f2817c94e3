package cli

import (
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
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

// AddFlag gives a command a flag. If initial is not empty, it is the value when the flag is not
// given, and must be one that can be read.
func AddFlag[T any](cmd *cobra.Command, into *T, read func(string) (T, error), name, noun, initial, usage string) {
	AddShortFlag(cmd, into, read, name, "", noun, initial, usage)
}

// AddShortFlag is AddFlag for a flag that has a letter besides its name.
func AddShortFlag[T any](cmd *cobra.Command, into *T, read func(string) (T, error), name, letter, noun, initial, usage string) {
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

// Positive reads what parse does, and refuses 0 and less by one rule.
func Positive[T ~int64](parse func(string) (T, error)) func(string) (T, error) {
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

// mostDays are half of what a duration holds, so that hours may be added to them.
const mostDays = math.MaxInt64 / int64(2*24*time.Hour)

// ParseDuration reads a duration that may begin with days, which Go does not know.
func ParseDuration(text string) (time.Duration, error) {
	const day = 24 * time.Hour
	number, rest, has := strings.Cut(text, "d")
	var whole float64
	var d time.Duration
	var err error
	if !has {
		rest = text
	} else if whole, err = strconv.ParseFloat(number, 64); err == nil && !(whole >= 0) {
		err = strconv.ErrSyntax
	}
	if err == nil && (rest != "" || !has) {
		d, err = time.ParseDuration(rest)
	}
	switch {
	case err != nil || has && d < 0:
		return 0, fmt.Errorf("must be a duration with its unit (ms, s, m, h or d), such as 90m, 12h or 7d, was %q", text)
	case whole > float64(mostDays) || d > time.Duration(mostDays)*day:
		return 0, fmt.Errorf("must be at most %dd, was %q", mostDays, text)
	}
	return time.Duration(whole*float64(day)) + d, nil
}

// ParseTime reads a time with its zone.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("must be a time such as 2026-03-01T12:00:00Z, was %q", text)
	}
	return t, nil
}

// OneOf reads one of some words.
func OneOf(words ...string) func(string) (string, error) {
	return func(text string) (string, error) {
		for _, w := range words {
			if text == w {
				return text, nil
			}
		}
		return "", fmt.Errorf("must be one of %s, was %q", strings.Join(words, ", "), text)
	}
}

// AtLeastOne reads a number of things of which there must be one.
func AtLeastOne(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("must be a whole number from 1 up, was %q", text)
	}
	return n, nil
}

// AboveZero reads a number above 0.
func AboveZero(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || v <= 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("must be a number greater than 0, was %q", text)
	}
	return v, nil
}

// ParseURL reads an address of a server that is asked over HTTP.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("must be a URL such as http://127.0.0.1:9090, was %q", text)
	}
	return u, nil
}

// SplitAddress takes host:port apart. Who listens may leave the host out, and have port 0 for a
// free one.
func SplitAddress(text string) (host string, port int, ok bool) {
	host, digits, err := net.SplitHostPort(text)
	if err != nil {
		return "", 0, false
	}
	port, err = strconv.Atoi(digits)
	return host, port, err == nil && port >= 0 && port <= 65535
}
