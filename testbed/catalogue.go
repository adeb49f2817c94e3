package testbed

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/testbed/strict"
)

// The experiments that come with the binary, a file each, named after the experiment.
//
//go:embed experiments/*.yaml
var experiments embed.FS

const folder = "experiments"

// Names are the experiments that come with the binary, sorted.
func Names() []string {
	entries, err := experiments.ReadDir(folder)
	if err != nil {
		panic(err) // the folder is in the binary
	}
	out := make([]string, len(entries))
	for i, e := range entries {
		out[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	slices.Sort(out) // files are sorted with their ending
	return out
}

// UnknownExperiment is the error for a name that no experiment has.
type UnknownExperiment struct{ Name string }

func (e *UnknownExperiment) Error() string {
	return fmt.Sprintf("experiment: must be a file or one of %s%s, was %q", strings.Join(Names(), ", "), meant(e.Name, Names()), e.Name)
}

// File returns the file of an experiment that comes with the binary.
func File(name string) ([]byte, error) {
	data, err := experiments.ReadFile(path.Join(folder, name+".yaml"))
	if err != nil {
		return nil, &UnknownExperiment{name}
	}
	return data, nil
}

// Replays reports whether an experiment's file is of one that replays counted loads, minute by
// minute, which its block replay shows; package testbed/replay/hpaplus reads and runs it.
func Replays(data []byte) bool { return strict.Has(data, "replay") }
