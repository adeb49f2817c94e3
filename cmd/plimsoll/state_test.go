package main

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/statedir"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func TestStateFolderIsOneProcessesAtATime(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "var", "state")
	first := must.Get(statedir.Open(folder))(t)
	if _, err := statedir.Open(folder); err == nil || !strings.Contains(err.Error(), "another plimsoll is at work in it: "+folder) {
		t.Errorf("a second process: %v", err)
	}
	must.Do(t, first.Close())
	again, err := statedir.Open(folder)
	if err != nil {
		t.Fatalf("once the first has ended: %v", err)
	}
	defer again.Close() //nolint:errcheck // the test ends
	must.Do(t, again.Put(filepath.Join("provider", "server.key"), []byte("secret")))
	for name, want := range map[string]fs.FileMode{"": 0o700, "lock": 0o600, "provider": 0o700, "provider/server.key": 0o600} {
		info := must.Get(os.Stat(filepath.Join(folder, name)))(t)
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%q has the mode %o, want %o", name, got, want)
		}
	}
}

func TestStateFilesAreWholeOrAsTheyWere(t *testing.T) {
	folder := t.TempDir()
	f := statedir.File(filepath.Join(folder, "intents.ndjson"))
	if data, err := f.Read(); err != nil || data != nil {
		t.Errorf("before the first write: %q, %v", data, err)
	}
	for _, line := range []string{"one\n", "two\n"} {
		must.Do(t, f.Append([]byte(line)))
	}
	// What a process left that died before the rename is overwritten, and never read.
	must.Do(t, os.WriteFile(string(f)+".new", []byte("longer than what comes after it\n"), 0o600))
	if data, err := f.Read(); err != nil || string(data) != "one\ntwo\n" {
		t.Errorf("%q, %v", data, err)
	}
	must.Do(t, f.Replace([]byte("three\n")))
	if data, err := f.Read(); err != nil || string(data) != "three\n" {
		t.Errorf("replaced: %q, %v", data, err)
	}
	must.Do(t, os.Mkdir(string(f)+".new", 0o700))
	if err := f.Replace([]byte("four\n")); err == nil {
		t.Error("replaced where nothing can be written")
	}
	if data, err := f.Read(); err != nil || string(data) != "three\n" {
		t.Errorf("after a write that failed: %q, %v", data, err)
	}
}

// A process that is killed leaves its socket behind, and its successor has to listen there all the
// same.
func TestSocketOfAProcessThatWasKilledIsTakenOver(t *testing.T) {
	folder, err := os.MkdirTemp("", "p") // socket names are short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &running{&siteFile{folder: folder}}
	first := must.Get(s.listen("provider.listen", "unix:door"))(t)
	if _, err := s.listen("provider.listen", "unix:door"); err == nil || cli.ExitCode(err) != cli.ExitConfig {
		t.Errorf("while somebody listens there: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as a process ends that is killed
	must.Do(t, first.Close())
	second, err := s.listen("provider.listen", "unix:door")
	if err != nil {
		t.Fatalf("after it was killed: %v", err)
	}
	info, err := os.Stat(filepath.Join(folder, "door"))
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("the socket's mode is %v (%v), want owner and group only", info.Mode(), err)
	}
	must.Do(t, second.Close())
	file := filepath.Join(folder, "file")
	must.Do(t, os.WriteFile(file, []byte("precious"), 0o600))
	if _, err := s.listen("provider.listen", "unix:file"); err == nil {
		t.Error("it listens on a file")
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		t.Error("it has removed a file that is no socket")
	}
}
