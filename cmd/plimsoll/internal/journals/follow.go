package journals

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Variable names the journal to read where no flag does.
const Variable = "PLIMSOLL_JOURNAL"

// Open returns the journal of a name, of which - is what comes in.
func Open(env *cli.Env, file string) (io.Reader, error) {
	if file == "-" {
		return Records(env, env.Stdin), nil
	}
	data, err := env.ReadFile(file)
	return Records(env, bytes.NewReader(data)), err
}

// Records leaves the records of a log, in which lines are empty that begin as no record does: a
// process that writes its journal to standard output logs beside it. At the end it says how many.
func Records(env *cli.Env, log io.Reader) io.Reader {
	return &records{in: bufio.NewReader(log), note: env.Stderr}
}

type records struct {
	in      *bufio.Reader
	note    io.Writer
	line    []byte // what has not been read of it
	skipped int
}

// Read implements [io.Reader].
func (r *records) Read(data []byte) (int, error) {
	var err error
	if len(r.line) == 0 {
		r.line, err = r.in.ReadBytes('\n')
		if err == nil && !bytes.HasPrefix(r.line, []byte(`{"id":`)) && len(r.line) > 1 {
			r.line, r.skipped = r.line[len(r.line)-1:], r.skipped+1
		}
		if errors.Is(err, io.EOF) && r.skipped > 0 {
			fmt.Fprintf(r.note, "note: lines that are no records of a journal were skipped: %d\n", r.skipped)
			r.skipped = 0
		}
	}
	n := copy(data, r.line)
	if r.line = r.line[n:]; len(r.line) > 0 {
		err = nil // it comes again
	}
	return n, err
}

// Follow calls f with the records of a journal from its start or its end on, and with those
// that are appended, also when it is put aside, until the context is done.
func Follow(ctx context.Context, env *cli.Env, name string, whence int, f func(*loop.Step) error) error {
	for ; ctx.Err() == nil; whence = io.SeekStart {
		file, err := os.Open(name)
		if err != nil {
			return fmt.Errorf("--journal: %w", err)
		}
		if _, err = file.Seek(0, whence); err == nil {
			err = loop.Read(Records(env, &growing{ctx: ctx, file: file}), f)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return ctx.Err()
}

// growing is a file that is appended to. It ends when another file has its name, as after the
// journal was put aside, or when the context is done.
type growing struct {
	ctx  context.Context
	file *os.File
}

// Read waits at the end of the file for more.
func (g *growing) Read(data []byte) (int, error) {
	for {
		n, err := g.file.Read(data)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if g.replaced() {
			return g.file.Read(data) // what was written until then
		}
		select {
		case <-g.ctx.Done():
			return 0, io.EOF
		case <-time.After(time.Second):
		}
	}
}

func (g *growing) replaced() bool {
	now, err := os.Stat(g.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		return false // it is being put aside
	}
	mine, mineErr := g.file.Stat()
	return err == nil && mineErr == nil && !os.SameFile(now, mine)
}
