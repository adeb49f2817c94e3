// Package statedir is the folder of what must outlive the program.
package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// Folder is where the program keeps what must outlive it. One process at a time has it.
type Folder struct {
	path string
	lock *os.File
}

// Open opens a folder, and makes it if it is not there. The folder is locked until it is
// closed, or the process ends in any way: two that write the same intents would order everything
// twice.
func Open(path string) (*Folder, error) {
	if err := makeFolder(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("another plimsoll is at work in it: %s", path), lock.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w", lock.Name(), err), lock.Close())
	}
	return &Folder{path, lock}, nil
}

// makeFolder makes a folder and those that it is in. Their names are on the disk when it returns:
// what is kept in a folder that is lost with the power is lost with it.
func makeFolder(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeFolder(filepath.Dir(path)); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return File(path).syncFolder()
}

// Close lets another process have the folder.
func (s *Folder) Close() error { return s.lock.Close() }

// File is a file in the folder, for a log.
func (s *Folder) File(name string) File { return File(filepath.Join(s.path, name)) }

// Intents are what was ordered. A line that cannot be read is a person's to take out: the machine
// that it is about may run.
func (s *Folder) Intents() (*intents.Log, error) {
	file := s.File("intents.ndjson")
	kept, err := intents.OpenLog(file)
	if corrupt, ok := errors.AsType[*intents.Corrupt](err); ok {
		err = fmt.Errorf("%w; keep a copy, then take the line out: sed -i.bak %dd %s; %s", err, corrupt.Line, pveapi.Shell(string(file)), intents.Lost)
	}
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("state: %s: %w", file, err))
	}
	return kept, nil
}

// Put writes a file in the folder, and the folders that it is in.
func (s *Folder) Put(name string, data []byte) error {
	if err := makeFolder(filepath.Dir(filepath.Join(s.path, name))); err != nil {
		return err
	}
	return s.File(name).Replace(data)
}

// File is a file whose writes are on the disk when they return.
type File string

// Read returns all that is in the file, and nothing without one.
func (f File) Read() ([]byte, error) {
	data, err := os.ReadFile(string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// Append adds to the file's end.
func (f File) Append(data []byte) error {
	return f.write(string(f), os.O_CREATE|os.O_WRONLY|os.O_APPEND, data)
}

// Replace puts data in place of all that is there, or leaves all of it.
func (f File) Replace(data []byte) error {
	fresh := string(f) + ".new"
	if err := f.write(fresh, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, data); err != nil {
		return err
	}
	if err := os.Rename(fresh, string(f)); err != nil {
		return err
	}
	return f.syncFolder()
}

func (f File) write(name string, flags int, data []byte) error {
	_, err := os.Stat(name)
	isNew := errors.Is(err, fs.ErrNotExist)
	file, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if isNew { // its name is in the folder, which has to be on the disk as well
		return f.syncFolder()
	}
	return nil
}

func (f File) syncFolder() error {
	folder, err := os.Open(filepath.Dir(string(f)))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
