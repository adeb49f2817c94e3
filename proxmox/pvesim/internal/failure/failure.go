// Package failure is how calls and tasks say that they failed: a status, a reason, and what is
// wrong with each parameter.
package failure

import (
	"errors"
	"fmt"
	"strings"
)

// Error is what a call ends with when it does not succeed.
type Error struct {
	Status int
	Reason string            // the text, of which the first line is in the status line
	Errors map[string]string // by parameter
	Bare   bool              // with neither body nor length, as when a connection breaks
}

func (e *Error) Error() string { return fmt.Sprintf("%d %s", e.Status, e.Reason) }

// New is the answer to nearly everything that goes wrong.
func New(format string, args ...any) error {
	return &Error{Status: 500, Reason: fmt.Sprintf(format, args...)}
}

// OfParameter is the answer to a parameter that breaks a rule.
func OfParameter(key, rule string) error {
	return &Error{Status: 400, Reason: "Parameter verification failed.", Errors: map[string]string{key: rule}}
}

// Denied is the answer to a caller who may not.
func Denied(format string, args ...any) error {
	return &Error{Status: 403, Reason: "Permission check failed (" + fmt.Sprintf(format, args...) + ")"}
}

// Unauthorized is the answer to a caller who is not known.
func Unauthorized(reason string) error { return &Error{Status: 401, Reason: reason} }

// Text is an error as the end of a task and its log have it; without one it is OK.
func Text(err error) string {
	if err == nil {
		return "OK"
	}
	return FirstLine(From(err).Reason)
}

// FirstLine is a text up to its first line feed.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// From is an error as the answer to a call. One that says nothing of a status has 500.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Status: 500, Reason: err.Error()}
}

// Message is an error's text in the body: a line, but for methods that are not there.
func (e *Error) Message() string {
	if e.Status == 501 {
		return e.Reason
	}
	return strings.TrimSuffix(e.Reason, "\n") + "\n"
}
