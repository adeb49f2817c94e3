package journals

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestStepsCountOnFromAJournal(t *testing.T) {
	t.Parallel()
	const first, second, restarted = `{"id":"d-000001","time":"2026-01-01T00:00:00Z"}` + "\n", `{"id":"d-000002","time":"2026-01-01T00:00:10Z"}` + "\n",
		`{"id":"d-000001","time":"2026-01-01T01:00:00Z"}` + "\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		last  int
	}{
		{"no file", nil, 0},
		{"an empty one", map[string]string{"journal": ""}, 0},
		{"one whose ids go up", map[string]string{"journal": first + second}, 2},
		{"one whose ids began anew", map[string]string{"journal": first + second + restarted}, 2},
		{"one whose last record was cut off", map[string]string{"journal": first + second[:30]}, 2},
		{"one whose last record was cut off in its id", map[string]string{"journal": first + second[:10]}, 1},
		{"one that was just put aside", map[string]string{"journal": "", "journal.1": first + second}, 2},
		{"an older one beside it", map[string]string{"journal": first, "journal.1": second}, 1},
		{"lines that are no records", map[string]string{"journal": "hello\n" + first + "{}\n"}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			for name, text := range c.files {
				must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
			}
			j := must.Get(OpenRotating(filepath.Join(folder, "journal"), 1<<20, 2))(t)
			defer func() { _ = j.Close() }()
			if last, err := j.Last(); last != c.last || err != nil {
				t.Errorf("counts on from %d, want %d (%v)", last, c.last, err)
			}
		})
	}
}

// A process that was killed while it wrote a record leaves the beginning of a line. All whole
// records can be read after the next process has gone on.
func TestAJournalThatWasCutOffIsPutAside(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "journal")
	const whole = `{"id":"d-000001","time":"2026-01-01T00:00:00Z"}` + "\n"
	must.Do(t, os.WriteFile(name, []byte(whole+whole[:20]), 0o600))
	j := must.Get(OpenRotating(name, 1<<20, 2))(t)
	defer func() { _ = j.Close() }()
	for _, id := range []string{"d-000002", "d-000003"} {
		must.Do(t, j.Append(&loop.Step{ID: id, Time: time.Date(2026, time.January, 1, 0, 1, 0, 0, time.UTC)}))
	}
	for file, want := range map[string][]string{name + ".1": {"d-000001"}, name: {"d-000002", "d-000003"}} {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		err = errors.Join(loop.Read(f, func(s *loop.Step) error { ids = append(ids, s.ID); return nil }), f.Close())
		if err != nil || !slices.Equal(ids, want) {
			t.Errorf("%s holds %v, want %v (%v)", file, ids, want, err)
		}
	}
}

// A write that fails once, as on a full disk, is not the last.
func TestAJournalGoesOnAfterAWriteThatFailed(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "journal")
	j, err := OpenRotating(name, 1<<20, 2)
	if err != nil {
		t.Fatal(err)
	}
	step := &loop.Step{ID: "d-000001", Time: time.Date(2026, time.January, 1, 0, 1, 0, 0, time.UTC)}
	good := j.file
	if j.file, err = os.Open(os.DevNull); err != nil { // which cannot be written to
		t.Fatal(err)
	}
	if err := errors.Join(j.Append(step), j.file.Close()); err == nil {
		t.Error("a write that failed is no error")
	}
	j.file = good
	defer func() { _ = j.Close() }()
	if err := j.Append(step); err != nil {
		t.Error(err)
	}
	if last, err := j.Last(); last != 1 || err != nil {
		t.Errorf("counts on from %d, want 1 (%v)", last, err)
	}
}

// A file that cannot be put aside for a while, as in a folder that is read-only, is not the end of
// the journal.
func TestAJournalGoesOnAfterARotationThatFailed(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "journal")
	j := must.Get(OpenRotating(name, 1, 1))(t)
	defer func() { _ = j.Close() }()
	step := func(id string) *loop.Step {
		return &loop.Step{ID: id, Time: time.Date(2026, time.January, 1, 0, 1, 0, 0, time.UTC)}
	}
	must.Do(t, j.Append(step("d-000001")))
	in := filepath.Join(name+".1", "the way")
	must.Do(t, os.MkdirAll(in, 0o700))
	for range 2 {
		if err := j.Append(step("d-000002")); err == nil || errors.Is(err, os.ErrClosed) {
			t.Errorf("a journal that cannot be put aside says %v", err)
		}
	}
	must.Do(t, os.RemoveAll(name+".1"))
	must.Do(t, j.Append(step("d-000002")))
	if last, err := j.Last(); last != 2 || err != nil {
		t.Errorf("counts on from %d, want 2 (%v)", last, err)
	}
	if _, err := os.Stat(name + ".1"); err != nil {
		t.Error(err)
	}
}

// A rotation that failed half way, or whose process ended, has made room. When it is tried again,
// no further file is removed.
func TestARotationThatIsTriedAgainRemovesNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		had, want map[string]string // by what is behind the name
	}{
		{"all are there", map[string]string{".1": "a", ".2": "b", ".3": "c"}, map[string]string{".1": "now", ".2": "a", ".3": "b"}},
		{"few are yet", map[string]string{".1": "a"}, map[string]string{".1": "now", ".2": "a"}},
		{"its own move failed", map[string]string{".2": "a", ".3": "b"}, map[string]string{".1": "now", ".2": "a", ".3": "b"}},
		{"the first one's failed", map[string]string{".1": "a", ".3": "b"}, map[string]string{".1": "now", ".2": "a", ".3": "b"}},
		{"the second one's failed", map[string]string{".1": "a", ".2": "b"}, map[string]string{".1": "now", ".2": "a", ".3": "b"}},
	} {
		name := filepath.Join(t.TempDir(), "journal")
		must.Do(t, os.WriteFile(name, []byte("now"), 0o600))
		for end, text := range c.had {
			must.Do(t, os.WriteFile(name+end, []byte(text), 0o600))
		}
		j := must.Get(OpenRotating(name, 1, 3))(t)
		must.Do(t, errors.Join(j.Append(&loop.Step{ID: "d-000001"}), j.Close()))
		got := map[string]string{}
		for _, end := range []string{".1", ".2", ".3", ".4"} {
			if text, err := os.ReadFile(name + end); err == nil {
				got[end] = string(text)
			}
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: %v are beside it, want %v", c.name, got, c.want)
		}
	}
}

// Where fewer files are to be kept than before, those beyond go when the journal is opened.
func TestAJournalThatKeepsFewerRemovesTheRest(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"journal", "journal.1", "journal.2", "journal.3", "journal.4", "journal.6"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), nil, 0o600))
	}
	j := must.Get(OpenRotating(filepath.Join(folder, "journal"), 1<<20, 2))(t)
	defer func() { _ = j.Close() }()
	var left []string
	for _, file := range must.Get(os.ReadDir(folder))(t) {
		left = append(left, file.Name())
	}
	if want := []string{"journal", "journal.1", "journal.2", "journal.6"}; !slices.Equal(left, want) {
		t.Errorf("left are %v, want %v", left, want)
	}
}
