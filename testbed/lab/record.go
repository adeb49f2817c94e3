package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What a lab leaves in its folder for other processes to find it by.
const (
	lockFile   = "lock" // held while a lab is up, with the process that holds it
	recordFile = "lab.json"
)

// Report is what can be seen of a lab from another process.
type Report struct {
	// Up is whether there is a process that runs the lab; Ready whether all of it answered once.
	Up         bool      `json:"up"`
	Ready      bool      `json:"ready"`
	PID        int       `json:"pid,omitempty"`
	Since      time.Time `json:"since"`
	Data       string    `json:"data"`
	Kubeconfig string    `json:"kubeconfig"`
	Parts      []Status  `json:"parts"`
}

// ErrNoLab says that no lab has ever been up in a folder.
var ErrNoLab = errors.New("there is no lab")

// record writes down how far the lab has come.
func (l *Lab) record() error {
	parts := l.Status()
	l.mu.Lock()
	defer l.mu.Unlock()
	text, err := json.MarshalIndent(Report{
		Ready: l.ready, PID: os.Getpid(), Since: l.since, Data: l.data, Kubeconfig: l.Kubeconfig(), Parts: parts,
	}, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(l.data, recordFile), text)
}

// Look says what can be seen of the lab in a folder.
func Look(data string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(data, recordFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNoLab, data)
	}
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(data, recordFile), err)
	}
	pid, err := holder(data)
	if err != nil {
		return nil, err
	}
	if r.Up = pid == r.PID; !r.Up {
		r.Ready, r.PID = false, 0
		for i := range r.Parts {
			// What a process leaves behind that was killed is not true any more.
			if r.Parts[i].State != StateEnded {
				r.Parts[i] = Status{Name: r.Parts[i].Name, State: StateStopped, Since: r.Parts[i].Since}
			}
		}
	}
	return &r, nil
}

// holder is the process that runs the lab in a folder, or 0.
func holder(data string) (int, error) {
	file := filepath.Join(data, lockFile)
	free, err := lockIsFree(file)
	if err != nil || free {
		return 0, err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("%s: must name a process, was %q", file, text)
	}
	return pid, nil
}

// TakeDown asks the process that runs the lab in a folder to stop it, waits until it has, and
// returns what was up before.
func TakeDown(ctx context.Context, data string) (*Report, error) {
	before, err := Look(data)
	if err != nil || !before.Up {
		return before, err
	}
	if err := terminate(before.PID); err != nil {
		return nil, fmt.Errorf("stop process %d: %w", before.PID, err)
	}
	for {
		pid, err := holder(data)
		if err != nil || pid != before.PID {
			return before, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("process %d runs the lab still: %w", before.PID, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// replaceFile puts a file in place as a whole, so that no one reads half of it.
func replaceFile(name string, text []byte) error {
	part, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*")
	if err != nil {
		return err
	}
	_, err = part.Write(text)
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), name)
	}
	if err != nil {
		_ = os.Remove(part.Name())
	}
	return err
}

// Log is where a part of the lab in a folder logs to.
func Log(data, part string) string { return filepath.Join(data, "logs", part+".log") }
