package pveapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Class says what kind of failure an Error is, and with that what may be done about it.
type Class string

// The classes. What is said of a write holds for everything but GET.
const (
	// Unknown is what has no known meaning: do nothing, and say so.
	Unknown Class = "Unknown"

	// No one did anything, for the client or the server's door was in the way.
	Invalid      Class = "Invalid"      // the call makes no sense and was not sent
	Canceled     Class = "Canceled"     // the caller's context ended before the request left
	NoEndpoint   Class = "NoEndpoint"   // no endpoint could be connected to
	Certificate  Class = "Certificate"  // no endpoint showed a certificate that is trusted
	Unauthorized Class = "Unauthorized" // the token is not accepted
	// The token lacks a privilege: Privilege on ACLPath, where named.
	Forbidden Class = "Forbidden"

	// The server understood, and refused.
	BadParameters Class = "BadParameters" // a parameter is wrong: Errors names them
	Unsupported   Class = "Unsupported"   // this server, storage or machine cannot do that
	Absent        Class = "Absent"        // there is no such machine on that host
	NoTask        Class = "NoTask"        // there is no such task on that host
	NoHost        Class = "NoHost"        // the cluster has no host of that name
	NoStorage     Class = "NoStorage"     // there is no such storage, or not on that host
	NoPool        Class = "NoPool"        // there is no such pool
	NoBridge      Class = "NoBridge"      // the host has no such bridge
	NoVolume      Class = "NoVolume"      // there is no such disk, image or snippet
	// The VMID is taken, by a machine that may be a stranger's.
	Exists      Class = "Exists"
	Locked      Class = "Locked"      // the machine's configuration carries a lock
	LockTimeout Class = "LockTimeout" // another client held a file's lock for too long
	StorageLock Class = "StorageLock" // another client held the storage's lock for too long
	StorageFull Class = "StorageFull" // the storage has no room
	MemoryFull  Class = "MemoryFull"  // the host has no memory to start the machine with
	NoQuorum    Class = "NoQuorum"    // the host that was asked is not part of a majority
	Running     Class = "Running"     // not while the machine is running
	NotRunning  Class = "NotRunning"  // not while the machine is stopped
	Protected   Class = "Protected"   // the machine's protection is on
	HAManaged   Class = "HAManaged"   // the machine belongs to the HA manager
	InUse       Class = "InUse"       // a disk is the base of linked clones
	Changed     Class = "Changed"     // the configuration is not the one whose digest was given
	AgentSilent Class = "AgentSilent" // the machine's guest agent does not answer
	NoAgent     Class = "NoAgent"     // the machine's guest agent is not switched on
	GuestSilent Class = "GuestSilent" // the guest did not shut down in the time it had
	Interrupted Class = "Interrupted" // the task was stopped or killed

	// The path to the host that does it failed.
	// The host was not reached (595): nothing was done there.
	HostUnreachable Class = "HostUnreachable"
	// No answer to what was sent: a write may have been done.
	Unanswered Class = "Unanswered"
	Garbled    Class = "Garbled" // a read's answer cannot be understood
)

// Error is a call that failed, or a task that did.
type Error struct {
	Method, Path string            // what was asked, without host and query
	Endpoint     string            // who was asked; empty when nothing was sent
	Status       int               // of the answer; 0 when there was none
	Reason       string            // the status line behind the status
	Message      string            // the body's message, which has all lines of the reason
	Errors       map[string]string // what is wrong with which parameter
	Privilege    string            // what the token lacks; alternatives are joined by |
	ACLPath      string            // where it lacks it
	Storage      string            // the storage that the text names
	TokenID      string            // user@realm!id of the token that was used
	Task         UPID              // the task that failed; Message has its exit text

	class Class
	cause error
}

// Class returns what kind of failure this is.
func (e *Error) Class() Class {
	if e.class != "" {
		return e.class
	}
	return classify(e)
}

// Host returns the host that the call was about, or nothing.
func (e *Error) Host() string { return hostOf(e.Path) }

// Is reports whether err is an Error of one of the classes.
func Is(err error, classes ...Class) bool {
	return err != nil && slices.Contains(classes, ClassOf(err))
}

// ClassOf returns the class of an Error, Unknown for any other error, and nothing for none.
func ClassOf(err error) Class {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Class()
	}
	return Unknown
}

// Unwrap returns what was behind it: a dial error, a context's end.
func (e *Error) Unwrap() error { return e.cause }

// Text returns what the server said, on one line.
func (e *Error) Text() string {
	text := e.Message
	if text == "" {
		text = e.Reason
	}
	text = strings.Join(strings.Fields(text), " ")
	for i, name := range slices.Sorted(maps.Keys(e.Errors)) {
		sep := "; "
		if i == 0 {
			sep = " "
		}
		text += sep + name + ": " + strings.Join(strings.Fields(e.Errors[name]), " ")
	}
	if text == "" && e.Status != 0 {
		text = http.StatusText(e.Status)
	}
	return text
}

// Error says what was being done and what the server said.
func (e *Error) Error() string {
	var what string
	switch {
	case e.Task != "":
		what = e.Task.said()
	case e.Method != "":
		what = e.Method + " " + e.Path
	default:
		what = "proxmox"
	}
	text := e.Text()
	if text == "" && e.cause != nil {
		text = e.cause.Error()
	}
	if e.Status != 0 {
		return fmt.Sprintf("%s: %s (%d)", what, text, e.Status)
	}
	return what + ": " + text
}

// Retryable reports whether the same call may do later what it did not do now, although no one
// has fixed anything. A write of unknown outcome is not: it is looked up first.
func (e *Error) Retryable() bool {
	switch e.Class() {
	case Locked, LockTimeout, StorageLock, NoQuorum, HostUnreachable, NoEndpoint, AgentSilent:
		return true
	case Unanswered, Garbled:
		return e.Method == http.MethodGet
	default:
		return false
	}
}

// Retryable reports whether err is an Error that is.
func Retryable(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Retryable()
}

// invalid is a call that was not made because it makes no sense.
func invalid(method, path, format string, args ...any) *Error {
	return &Error{Method: method, Path: path, Message: fmt.Sprintf(format, args...), class: Invalid}
}

// canceled is a call that was not made because the caller gave up.
func canceled(ctx context.Context, method, path string) *Error {
	return &Error{Method: method, Path: path, Message: context.Cause(ctx).Error(), class: Canceled, cause: ctx.Err()}
}
