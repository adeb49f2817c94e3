// Package cli is what every verb is put into: the process that it runs in, its flags, and errors
// with the code that the program exits with. It knows no verb.
package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
	_ "time/tzdata" // prices follow local clocks, and not every image knows the zones

	"github.com/plimsoll/plimsoll/api/printable"
)

// Env is all that the program has of the process it runs in. Only FromProcess touches os, so
// that the whole program also runs inside a test.
type Env struct {
	Args    []string // without the program's name
	Version string   // of the program
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
	// IsTerminal is whether a person is looking at Stdout, StderrIsTerminal whether at Stderr,
	// and HasKeys whether one types on Stdin.
	IsTerminal       bool
	StderrIsTerminal bool
	HasKeys          bool
	Getenv           func(key string) string
	// ReadFile reads a file; relative names start in the working directory.
	ReadFile func(name string) ([]byte, error)
	// Stat reads when a file was changed, and who may read it.
	Stat func(name string) (fs.FileInfo, error)
	// Create makes a file, in place of one that is there, and the folders that it is in.
	Create func(name string) (io.WriteCloser, error)
	// Program is the file of this program, and TempFolder makes a folder that may be removed later.
	Program    func() (string, error)
	TempFolder func(pattern string) (string, error)
	Now        func() time.Time
	Exit       func(code int)
}

// FromProcess returns the environment of this process, and a context that ends when the process
// is asked to.
func FromProcess() (context.Context, *Env) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // to be asked twice ends it at once
	return ctx, &Env{
		Args:             os.Args[1:],
		Stdin:            os.Stdin,
		Stdout:           os.Stdout,
		Stderr:           os.Stderr,
		IsTerminal:       isTerminal(os.Stdout),
		StderrIsTerminal: isTerminal(os.Stderr),
		HasKeys:          isTerminal(os.Stdin),
		Getenv:           os.Getenv,
		ReadFile:         os.ReadFile,
		Stat:             os.Stat,
		Create:           create,
		Program:          os.Executable,
		TempFolder:       func(pattern string) (string, error) { return os.MkdirTemp("", pattern) },
		Now:              time.Now,
		Exit:             os.Exit,
	}
}

// guarded is the environment that verbs get: text from elsewhere that they print steers no
// terminal. The function writes what the last text left open.
func (e *Env) guarded() (*Env, func()) {
	out, errs := printable.NewWriter(e.Stdout), printable.NewWriter(e.Stderr)
	inside := *e
	inside.Stdout, inside.Stderr = out, errs
	return &inside, func() { _, _ = out.Close(), errs.Close() } // there is no reader left
}

// WriteFile makes a file of what write writes.
func (e *Env) WriteFile(name string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	f, err := e.Create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	return errors.Join(err, f.Close())
}

// Unguarded is what a terminal is drawn on. Only our own text, or text that was made printable, may
// be written to it.
func Unguarded(w io.Writer) io.Writer {
	if g, is := w.(*printable.Writer); is {
		return g.Unguarded()
	}
	return w
}

// create makes a file and its folders.
func create(name string) (io.WriteCloser, error) {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	return os.Create(name)
}

// isTerminal takes every character device but the null device for a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// Input reads a file, or standard input if it is called -.
func (e *Env) Input(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(e.Stdin)
	}
	return e.ReadFile(file)
}
