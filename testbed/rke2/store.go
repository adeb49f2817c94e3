package rke2

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Store is the folder that a bench keeps its state in. Files hold secrets.
type Store interface {
	// Read returns a file; one that is not there is fs.ErrNotExist.
	Read(name string) ([]byte, error)
	// Write puts data in place of a file, whole or not at all.
	Write(name string, data []byte) error
	// Append adds to a file's end.
	Append(name string, data []byte) error
	// Remove removes a file, if it is there.
	Remove(name string) error
}

// The files of a bench.
const (
	stateFile      = "state.json"
	secretsFile    = "secrets.json"
	intentsFile    = "intents.ndjson"
	kubeconfigFile = "kubeconfig"
)

// Folder is a Store on disk. It is made when something is first written.
type Folder string

// Read returns a file.
func (f Folder) Read(name string) ([]byte, error) { return os.ReadFile(filepath.Join(string(f), name)) }

// Write puts data in place of a file.
func (f Folder) Write(name string, data []byte) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(string(f), "."+name+"-*") // no other client may read it
	if err != nil {
		return err
	}
	_, err = temporary.Write(data)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), filepath.Join(string(f), name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

// Append adds to a file's end.
func (f Folder) Append(name string, data []byte) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(string(f), name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

// Remove removes a file, and the folder when nothing else is in it.
func (f Folder) Remove(name string) error {
	err := os.Remove(filepath.Join(string(f), name))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	_ = os.Remove(string(f)) // fails as long as there is something in it
	return err
}

// state is what a bench remembers of itself. What there is in the world is not in it: that is
// looked at.
type state struct {
	Owner string `json:"owner"`
	// Run begins the orders of this test bed, and so the names of its machines: RKE2 takes no
	// second machine of a name.
	Run string `json:"run"`
	// Orders is how many machines were ordered.
	Orders int          `json:"orders"`
	Steps  []StepRecord `json:"steps"`
}

// StepRecord is a step of a list, as it went.
type StepRecord struct {
	Verb  string    `json:"verb"` // up or down
	Name  string    `json:"name"`
	Begun time.Time `json:"begun,omitzero"`
	Done  time.Time `json:"done,omitzero"`
	// Found is whether there was nothing to do.
	Found bool `json:"found,omitempty"`
}

// ReadJSON reads a file, and reports whether it is there.
func ReadJSON(s Store, name string, into any) (bool, error) {
	data, err := s.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", name, err)
	}
	return true, nil
}

// WriteJSON writes a file.
func WriteJSON(s Store, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return s.Write(name, append(data, '\n'))
}

func (s *state) keep(in Store) error { return WriteJSON(in, stateFile, s) }

// intentFile is the file of the fleet's intents in a store.
type intentFile struct{ Store }

func (i intentFile) Read() ([]byte, error) {
	data, err := i.Store.Read(intentsFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}
func (i intentFile) Append(data []byte) error  { return i.Store.Append(intentsFile, data) }
func (i intentFile) Replace(data []byte) error { return i.Store.Write(intentsFile, data) }

// memory is a Store that ends with the process.
type memory map[string][]byte

func (m memory) Read(name string) ([]byte, error) {
	data, there := m[name]
	if !there {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return slices.Clone(data), nil
}

func (m memory) Write(name string, data []byte) error {
	m[name] = slices.Clone(data)
	return nil
}

func (m memory) Append(name string, data []byte) error {
	m[name] = append(m[name], data...)
	return nil
}

func (m memory) Remove(name string) error {
	delete(m, name)
	return nil
}
