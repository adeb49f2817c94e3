// Package journals is the files that decisions and what they rest on are kept in: journals that are
// put aside when they are full, and followed while they grow, and recordings in segments.
package journals

import (
	"bufio"
	"errors"
	"fmt"
	"io"
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

	file *os.File // nil after a rotation that failed, until the next record
	size int64
	cut  bool // its last record is not whole: the process was killed while it wrote that
	out  *loop.NDJSON
}

// OpenRotating goes on with the file of a name, or begins it. It removes files that were put aside
// when more were kept: no rotation reaches them.
func OpenRotating(name string, limit int64, keep int) (*Rotating, error) {
	j := &Rotating{name: name, limit: limit, keep: keep}
	for n := max(keep, 1) + 1; os.Remove(j.aside(n)) == nil; n++ {
	}
	return j, j.open()
}

func (j *Rotating) open() error {
	file, err := os.OpenFile(j.name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	size, cut := info.Size(), false
	if size > 0 {
		var last [1]byte
		if _, err := file.ReadAt(last[:], size-1); err != nil {
			return errors.Join(err, file.Close())
		}
		cut = last[0] != '\n'
	}
	j.file, j.size, j.cut, j.out = file, size, cut, loop.NewNDJSON(j)
	return nil
}

// Append writes one record. A record is never in two files, and none follows one that is not whole:
// a reader would take the two for one line.
func (j *Rotating) Append(s *loop.Step) error {
	if j.file == nil { // full still, or begun anew
		if err := j.open(); err != nil {
			return err
		}
	}
	if j.size >= j.limit || j.cut {
		if err := j.rotate(); err != nil {
			return err
		}
	}
	before := j.size
	err := j.out.Append(s)
	if err == nil {
		return nil
	}
	j.out = loop.NewNDJSON(j) // the other one writes no more
	if j.size > before {
		j.cut = j.file.Truncate(before) != nil
		j.size = before
	}
	return err
}

// Write counts what is written to the file.
func (j *Rotating) Write(data []byte) (int, error) {
	n, err := j.file.Write(data)
	j.size += int64(n)
	return n, err
}

// rotate puts the file aside and begins another. It fills the first place that is free: an
// attempt that failed has left one, and without that each retry would remove one more old file.
func (j *Rotating) rotate() error {
	err := j.file.Close()
	if j.file = nil; err != nil {
		return err
	}
	free := 1
	for ; free < j.keep; free++ {
		if _, err := os.Lstat(j.aside(free)); errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err := os.Remove(j.aside(free)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for n := free - 1; n >= 1; n-- {
		if err := os.Rename(j.aside(n), j.aside(n+1)); err != nil {
			return err
		}
	}
	if err := os.Rename(j.name, j.aside(1)); err != nil {
		return err
	}
	return j.open()
}

// aside is the name of the file that was put aside so many times; none is the journal's own.
func (j *Rotating) aside(n int) string {
	if n == 0 {
		return j.name
	}
	return fmt.Sprintf("%s.%d", j.name, n)
}

// Last is the highest number of a step in the newest file that holds one, or 0. Of a damaged line,
// such as the last one after a crash, the beginning is enough.
func (j *Rotating) Last() (last int, err error) {
	for n := 0; n <= j.keep && last == 0; n++ {
		file, err := os.Open(j.aside(n))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		// A pipe would be waited for.
		if info, unknown := file.Stat(); unknown == nil && info.Mode().IsRegular() {
			last, err = highest(file)
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return 0, fmt.Errorf("%s: %w", file.Name(), err)
		}
	}
	return last, nil
}

// highest is the highest number of a step in a file. It does not parse the records, which are long.
func highest(file io.Reader) (last int, err error) {
	for in := bufio.NewReader(file); err == nil; {
		var line []byte
		var n int // 0 of a line that is no record
		line, err = in.ReadBytes('\n')
		_, _ = fmt.Sscanf(string(line[:min(len(line), idLength)]), `{"id":"d-%d"`, &n)
		last = max(last, n)
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return last, err
}

// idLength is how far into a record its id goes at most.
const idLength = 32

// Close closes the file.
func (j *Rotating) Close() error {
	if j.file == nil {
		return nil
	}
	return j.file.Close()
}
