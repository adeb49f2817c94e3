package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// What the program exits with. An error that says nothing else is ExitFailed.
const (
	ExitDone        = 0
	ExitFailed      = 1
	ExitUsage       = 2  // the command line makes no sense
	ExitConfig      = 3  // a file or resource that configures us is wrong
	ExitUnreachable = 4  // something that we need does not answer
	ExitThreshold   = 99 // all went well, and a threshold was missed
)

// exitError is an error that knows how the program should end on it.
type exitError struct {
	error
	code int
	hint string // what the user can do; may be empty
}

func (e *exitError) Unwrap() error { return e.error }

// WithCode makes the program exit with a code if it ends on err.
func WithCode(code int, err error) error { return &exitError{error: err, code: code} }

// WithHint adds what the user can do about err, and leaves its exit code.
func WithHint(hint string, err error) error {
	return &exitError{error: err, code: ExitCode(err), hint: hint}
}

// Misused is an error in the command line.
func Misused(format string, args ...any) error {
	return WithCode(ExitUsage, fmt.Errorf(format, args...))
}

// Misconfigured is an error in a file, with every fault on a line of its own.
func Misconfigured(file string, err error) error {
	faults := strings.ReplaceAll(err.Error(), "\n", "\n  ")
	return WithCode(ExitConfig, fmt.Errorf("%s is refused:\n  %s", file, faults))
}

// ExitCode is what the program exits with if it ends on err.
func ExitCode(err error) int {
	if err == nil {
		return ExitDone
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return ExitFailed
}

// Report shows the user the error that the program ends on.
func Report(w io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, " ") {
			line = "plimsoll: " + line
		}
		fmt.Fprintln(w, line)
	}
	if e, ok := errors.AsType[*exitError](err); ok && e.hint != "" {
		fmt.Fprintln(w, "hint:", e.hint)
	}
}

// KeyOf is the key at fault, if the error names one.
func KeyOf(err error) string {
	var keyed interface{ Path() string }
	if errors.As(err, &keyed) {
		return keyed.Path()
	}
	return ""
}

// Parts takes a joined error apart.
func Parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return nil
}

// Each is the parts of an error, or the error if it has none.
func Each(err error) []error {
	if parts := Parts(err); parts != nil || err == nil {
		return parts
	}
	return []error{err}
}
