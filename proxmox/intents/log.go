package intents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
)

// File is the file that a Log is kept in.
type File interface {
	// Read returns all that is in the file, and nothing without one.
	Read() ([]byte, error)
	// Append adds to its end. What it has returned nil for survives a crash; what it was
	// interrupted in may be there in part.
	Append(data []byte) error
	// Replace puts data in place of all that is there, or leaves all of it.
	Replace(data []byte) error
}

// Log keeps intents in a file, a line for each change, so that keeping one costs one short
// write. A last line that is torn is one that was not reported as kept, and is omitted.
type Log struct {
	file File

	mu    sync.Mutex
	kept  map[string]Intent
	lines int
	torn  bool // the file's end is unknown: it is written anew before anything is added
}

// logLine is one change.
type logLine struct {
	Put    *Intent `json:"put,omitempty"`
	Remove string  `json:"remove,omitempty"`
}

// slackLines are how many lines more than twice what is needed a log may have.
const slackLines = 256

// OpenLog reads the log in a file.
func OpenLog(file File) (*Log, error) {
	data, err := file.Read()
	if err != nil {
		return nil, fmt.Errorf("read intents: %w", err)
	}
	l := &Log{file: file, kept: map[string]Intent{}}
	for len(data) > 0 {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		l.lines++
		if !whole {
			l.torn = true
			break
		}
		if err := l.replay(line); err != nil {
			return nil, fmt.Errorf("read intents: %w", &Corrupt{Line: l.lines, Order: orderIn(line), Err: err})
		}
		data = rest
	}
	return l, nil
}

// Corrupt is a record that cannot be read. Whoever goes on without it must have a person take
// it out: what a machine was last known to do may be in it.
type Corrupt struct {
	Line  int    // of the log
	Order string // whose it seems to be; empty is unknown
	Err   error
}

func (e *Corrupt) Error() string {
	of := ""
	if e.Order != "" {
		of = " (of order " + e.Order + ")"
	}
	return fmt.Sprintf("line %d%s: %v", e.Line, of, e.Err)
}

func (e *Corrupt) Unwrap() error { return e.Err }

// Lost says what is lost with a record that is taken out.
const Lost = "what was last known of that order is lost: its machine is adopted again if it carries its mark, and " +
	"'plimsoll doctor' lists what is left of it otherwise"

// orderIn is the order that a record that cannot be read seems to be of.
func orderIn(line []byte) string {
	m := orderHeld.FindSubmatch(line)
	if m == nil {
		return ""
	}
	return string(m[1])
}

var orderHeld = regexp.MustCompile(`"(?:order|remove)":"([A-Za-z0-9._-]{1,64})"`)

func (l *Log) replay(data []byte) error {
	var line logLine
	if err := json.Unmarshal(data, &line); err != nil {
		return err
	}
	switch {
	case line.Put != nil:
		l.kept[line.Put.Order] = *line.Put
	case line.Remove != "":
		delete(l.kept, line.Remove)
	default:
		return fmt.Errorf("must put or remove an intent, was %q", data)
	}
	return nil
}

// Load returns the intents, by order.
func (l *Log) Load() ([]Intent, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Collect(maps.Values(l.kept))
	for i := range all {
		all[i] = all[i].Clone()
	}
	sortIntents(all)
	return all, nil
}

// Put keeps an intent in place of the one with the same order.
func (l *Log) Put(i Intent) error {
	i = i.Clone()
	return l.change(logLine{Put: &i}, func() { l.kept[i.Order] = i })
}

// Remove forgets the intent of an order.
func (l *Log) Remove(order string) error {
	return l.change(logLine{Remove: order}, func() { delete(l.kept, order) })
}

// change writes a change and then makes it.
func (l *Log) change(line logLine, apply func()) error {
	data, err := json.Marshal(line)
	if err != nil {
		return fmt.Errorf("keep intent: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.torn || l.lines > 2*len(l.kept)+slackLines {
		if err := l.compact(); err != nil {
			return err
		}
	}
	if err := l.file.Append(append(data, '\n')); err != nil {
		l.torn = true
		return fmt.Errorf("keep intent: %w", err)
	}
	l.lines++
	apply()
	return nil
}

// compact writes the log anew, with a line for each intent.
func (l *Log) compact() error {
	var all bytes.Buffer
	for _, order := range slices.Sorted(maps.Keys(l.kept)) {
		i := l.kept[order]
		data, err := json.Marshal(logLine{Put: &i})
		if err != nil {
			return fmt.Errorf("compact intents: %w", err)
		}
		all.Write(append(data, '\n'))
	}
	if err := l.file.Replace(all.Bytes()); err != nil {
		return fmt.Errorf("compact intents: %w", err)
	}
	l.lines, l.torn = len(l.kept), false
	return nil
}
