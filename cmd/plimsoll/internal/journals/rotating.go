// Package journals is the files that decisions and what they rest on are kept in: journals that are
// put aside when they are full, and followed while they grow, and recordings in segments.
package journals

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
)

// Rotating is a journal in a file that is put aside when it is full: as name.1, the one before it
// as name.2, and so on.
type Rotating struct {
	name  string
	limit int64
	keep  int

	file *os.File
	size int64
	out  *loop.NDJSON
}

// OpenRotating goes on with the file of a name, or begins it.
func OpenRotating(name string, limit int64, keep int) (*Rotating, error) {
	j := &Rotating{name: name, limit: limit, keep: keep}
	return j, j.open()
}

func (j *Rotating) open() error {
	file, err := os.OpenFile(j.name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	j.file, j.size = file, info.Size()
	j.out = loop.NewNDJSON(j)
	return nil
}

// Append writes one record. A record is never in two files.
func (j *Rotating) Append(s *loop.Step) error {
	if j.size >= j.limit {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	return j.out.Append(s)
}

// Write counts what is written to the file.
func (j *Rotating) Write(data []byte) (int, error) {
	n, err := j.file.Write(data)
	j.size += int64(n)
	return n, err
}

// rotate puts the file aside and begins another.
func (j *Rotating) rotate() error {
	if err := j.file.Close(); err != nil {
		return err
	}
	aside := func(n int) string { return fmt.Sprintf("%s.%d", j.name, n) }
	if err := os.Remove(aside(j.keep)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for n := j.keep - 1; n >= 1; n-- {
		if err := os.Rename(aside(n), aside(n+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(j.name, aside(1)); err != nil {
		return err
	}
	return j.open()
}

// Close closes the file.
func (j *Rotating) Close() error { return j.file.Close() }
