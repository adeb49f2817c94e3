package pveapi

import (
	"regexp"
	"strconv"
	"time"
)

// UPID names a task: where it runs, since when, what it does and which user began it.
type UPID string

var upidForm = regexp.MustCompile(`^UPID:([a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?):([0-9A-Fa-f]{8}):([0-9A-Fa-f]{8,9}):([0-9A-Fa-f]{8}):([^:\s/]+):([^:\s]*):([^:\s]+):$`)

// part returns the nth part, or nothing if this is no UPID.
func (u UPID) part(n int) string {
	m := upidForm.FindStringSubmatch(string(u))
	if m == nil {
		return ""
	}
	return m[n]
}

// Valid reports whether it is a UPID at all.
func (u UPID) Valid() bool { return upidForm.MatchString(string(u)) }

// Node returns the host that the task runs on.
func (u UPID) Node() string { return u.part(1) }

// Type returns what the task does: qmclone, qmstart, imgcopy.
func (u UPID) Type() string { return u.part(5) }

// ID returns what the task works on. Of a clone it is the machine that is copied, not the new one.
func (u UPID) ID() string { return u.part(6) }

// User returns whose task it is: user@realm, or user@realm!id.
func (u UPID) User() string { return u.part(7) }

// Started returns when the task began by its host's clock, to the second.
func (u UPID) Started() time.Time {
	seconds, err := strconv.ParseInt(u.part(4), 16, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(seconds, 0)
}

// said names the task in a sentence.
func (u UPID) said() string {
	if !u.Valid() {
		return "task " + strconv.Quote(string(u))
	}
	text := "task " + u.Type()
	if u.ID() != "" {
		text += " " + u.ID()
	}
	return text + " on " + u.Node()
}
