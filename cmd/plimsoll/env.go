package main

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
	_ "time/tzdata" // prices follow local clocks, and not every image knows the zones

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

// Env is all that the program has of the process it runs in. Only fromProcess touches os, so
// that the whole program also runs inside a test.
type Env struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// IsTerminal is whether a person is looking at Stdout, StderrIsTerminal whether at Stderr,
	// and HasKeys whether one types on Stdin.
	IsTerminal       bool
	StderrIsTerminal bool
	HasKeys          bool
	Getenv           func(key string) string
	// ReadFile reads a file; relative names start in the working directory.
	ReadFile func(name string) ([]byte, error)
	// Stat tells when a file was changed, and who may read it.
	Stat func(name string) (fs.FileInfo, error)
	// Create makes a file, in place of one that is there, and the folders that it is in.
	Create func(name string) (io.WriteCloser, error)
	// Program is the file that this program is, and TempFolder makes a folder for what may go one day.
	Program    func() (string, error)
	TempFolder func(pattern string) (string, error)
	// Spawn runs the program once more, in a session of its own, with its output at the end of a file.
	Spawn func(args []string, output string) (*lab.Spawned, error)
	Now   func() time.Time
	Exit  func(code int)
}

// fromProcess returns the environment of this process, and a context that ends when the process
// is asked to.
func fromProcess() (context.Context, *Env) {
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
		Spawn:            spawn,
		Now:              time.Now,
		Exit:             os.Exit,
	}
}

// guarded is the environment that verbs get: text from elsewhere that they print steers no terminal.
// The function passes on what the last text left open.
func (e *Env) guarded() (*Env, func()) {
	out, errs := printable.NewWriter(e.Stdout), printable.NewWriter(e.Stderr)
	inside := *e
	inside.Stdout, inside.Stderr = out, errs
	return &inside, func() { _, _ = out.Close(), errs.Close() } // there is no reader left
}

// unguarded is what a terminal is drawn on. What is written to it is our own, or has been made printable.
func unguarded(w io.Writer) io.Writer {
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

// spawn runs this program once more.
func spawn(args []string, output string) (*lab.Spawned, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return lab.Spawn(program, args, output)
}

// isTerminal takes character devices for terminals, all but the one that nobody looks at.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}
