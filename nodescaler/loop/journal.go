package loop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Journal keeps the records of all steps.
type Journal interface {
	Append(s *Step) error
}

// NDJSON is a journal of one JSON record a line.
type NDJSON struct{ enc *json.Encoder }

// NewNDJSON returns a journal that writes to w.
func NewNDJSON(w io.Writer) *NDJSON {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return &NDJSON{enc: enc}
}

// Append writes one record.
func (j *NDJSON) Append(s *Step) error { return j.enc.Encode(s) }

// Journals are several that get the same records.
type Journals []Journal

// Append gives the record to all of them.
func (all Journals) Append(s *Step) (err error) {
	for _, j := range all {
		err = errors.Join(err, j.Append(s))
	}
	return err
}

// Read calls f with every record of an NDJSON journal, in order, until f returns an error. A
// last line that was cut off in the writing is omitted, and so are empty ones; any other line that
// is no record is an error that names it.
func Read(r io.Reader, f func(*Step) error) error {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("journal line %d: %w", n, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var s Step
		if err := json.Unmarshal(line, &s); err != nil {
			return fmt.Errorf("journal line %d is not a record: %w", n, err)
		}
		if s.ID == "" || s.Time.IsZero() {
			return fmt.Errorf("journal line %d is not a record: it has no id or no time", n)
		}
		if err := f(&s); err != nil {
			return err
		}
	}
}
