package journals

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// What is appended is read, in the file that is followed and in the one that takes its name.
func TestAFileThatIsPutAsideIsFollowed(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "journal")
	write := func(id int) {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, `{"id":"d-%d","time":"2026-01-01T00:00:00Z"}`+"\n", id)
		}
		if err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	write(1)
	ctx, end := context.WithCancel(t.Context())
	ids, done := make(chan string), make(chan error)
	go func() {
		done <- Follow(ctx, &cli.Env{Stderr: io.Discard}, name, io.SeekEnd, func(s *loop.Step) error { ids <- s.ID; return nil })
	}()
	first := ""
	for id := 2; first == ""; id++ { // some may come before the end is sought
		write(id)
		select {
		case first = <-ids:
		case <-time.After(20 * time.Millisecond):
		}
	}
	if first == "d-1" {
		t.Error("what was there before is shown")
	}
	must.Do(t, os.Rename(name, name+".1"))
	write(1000)
	for got := first; got != "d-1000"; {
		got = <-ids
	}
	end()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
