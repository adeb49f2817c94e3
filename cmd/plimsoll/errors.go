package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// What the program exits with. An error that says nothing else is exitFailed.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2  // the command line makes no sense
	exitConfig      = 3  // a file or resource that configures us is wrong
	exitUnreachable = 4  // something that we need does not answer
	exitThreshold   = 99 // all went well, and a threshold was missed
)

// exitError is an error that knows how the program should end on it.
type exitError struct {
	error
	code int
	hint string // what the user can do; may be empty
}

func (e *exitError) Unwrap() error { return e.error }

// withCode makes the program exit with a code if it ends on err.
func withCode(code int, err error) error { return &exitError{error: err, code: code} }

// withHint adds what the user can do about err, and leaves its exit code.
func withHint(hint string, err error) error {
	return &exitError{error: err, code: exitCode(err), hint: hint}
}

// misused is an error in the command line.
func misused(format string, args ...any) error {
	return withCode(exitUsage, fmt.Errorf(format, args...))
}

// misconfigured is an error in a file, with every fault on a line of its own.
func misconfigured(file string, err error) error {
	faults := strings.ReplaceAll(err.Error(), "\n", "\n  ")
	return withCode(exitConfig, fmt.Errorf("%s is refused:\n  %s", file, faults))
}

func exitCode(err error) int {
	if err == nil {
		return exitDone
	}
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return exitFailed
}

// report tells the user about the error that the program ends on.
func report(w io.Writer, err error) {
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if !strings.HasPrefix(line, " ") {
			line = "plimsoll: " + line
		}
		fmt.Fprintln(w, line)
	}
	var e *exitError
	if errors.As(err, &e) && e.hint != "" {
		fmt.Fprintln(w, "hint:", e.hint)
	}
}
