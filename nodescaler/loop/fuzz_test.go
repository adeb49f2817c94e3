package loop

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzJournal reads journals that others wrote: what is read is written the same way again.
func FuzzJournal(f *testing.F) {
	f.Add([]byte(`{"id":"d-000001","time":"2026-01-01T00:00:00Z"}` + "\n"))
	f.Add([]byte(`{"id":"d-000001","time":"2026-01-01T00:00:00Z","snapshot":{"Pools":[{"Name":"w"}]}}` + "\n{"))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		read := func(data []byte) (*bytes.Buffer, error) {
			var again bytes.Buffer
			j := NewNDJSON(&again)
			return &again, Read(bytes.NewReader(data), func(s *Step) error { return j.Append(s) })
		}
		once, err := read(data)
		if err != nil {
			return
		}
		twice, err := read(once.Bytes())
		if err != nil {
			t.Fatalf("what was written is not read: %v", err)
		}
		if d := cmp.Diff(once.String(), twice.String()); d != "" {
			t.Error(d)
		}
	})
}
