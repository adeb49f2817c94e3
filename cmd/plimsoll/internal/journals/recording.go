package journals

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/recording"
)

// segmentEnding is how the files of a recording end. They begin with their number: a clock may be
// put back.
const segmentEnding = ".ndjson.gz"

// Folder is a folder of segments. The oldest are removed beyond its limit.
type Folder struct {
	path  string
	limit int64 // bytes
	next  int
}

// OpenRecording goes on with the folder of a name, or makes it.
func OpenRecording(path string, limit int64) (*Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	names, err := segmentNames(path)
	f := &Folder{path: path, limit: limit, next: 1}
	if len(names) > 0 {
		if _, err := fmt.Sscanf(names[len(names)-1], "%d-", &f.next); err != nil {
			return nil, fmt.Errorf("file %s: the name must begin with a number", names[len(names)-1])
		}
		f.next++
	}
	return f, err
}

// segmentNames are the files of a recording, in order.
func segmentNames(path string) (names []string, err error) {
	all, err := os.ReadDir(path)
	for _, e := range all {
		if strings.HasSuffix(e.Name(), segmentEnding) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Open begins a segment.
func (f *Folder) Open(at time.Time) (io.WriteCloser, error) {
	if err := f.trim(); err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%08d-%s%s", f.next, at.UTC().Format("20060102T150405Z"), segmentEnding)
	file, err := os.OpenFile(filepath.Join(f.path, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	f.next++
	return &segment{file}, nil
}

// segment is a file of a recording.
type segment struct{ *os.File }

// Discard removes it.
func (s *segment) Discard() error { return os.Remove(s.Name()) }

// trim removes the oldest segments beyond the limit.
func (f *Folder) trim() error {
	names, err := segmentNames(f.path)
	if err != nil {
		return err
	}
	var size int64
	for _, name := range slices.Backward(names) {
		info, err := os.Stat(filepath.Join(f.path, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if size += info.Size(); size > f.limit {
			if err := os.Remove(filepath.Join(f.path, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// ReadRecording calls f with every moment of a file or a folder of them, in order.
func ReadRecording(path string, f func(*recording.Moment) error) error {
	names := []string{path}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		if names, err = segmentNames(path); err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("%s: must hold files that end in %s, as plimsoll run writes them where its configuration has recording; it holds no such file", path, segmentEnding)
		}
		for i := range names {
			names[i] = filepath.Join(path, names[i])
		}
	}
	for _, name := range names {
		if err := readSegment(name, f); err != nil {
			return err
		}
	}
	return nil
}

func readSegment(name string, f func(*recording.Moment) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	var stopped error
	err = recording.Read(file, func(m *recording.Moment) error {
		stopped = f(m)
		return stopped
	})
	if err == nil || errors.Is(err, stopped) {
		return stopped
	}
	return fmt.Errorf("%s: %w", name, err)
}
