package trial

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/rke2"
)

// Identity is what runs are of. Only runs of the same are put together.
type Identity struct {
	Experiment string `json:"experiment"`
	// File is the sum of the experiment's file, and Site that of what the site's says.
	File string `json:"file"`
	Site string `json:"site"`
	// Options are the flags that were given beside the experiment.
	Options []string `json:"options"`
}

// NewIdentity is that of an experiment's file with options, on a site.
func NewIdentity(experiment string, file []byte, options []string, s *rke2.Site) (Identity, error) {
	counts, err := json.Marshal(struct {
		Owner   string
		RKE2    rke2.Release
		Workers rke2.Workers
		Load    rke2.Size
		Run     rke2.Run
		// ClusterAutoscaler is its image.
		ClusterAutoscaler string `json:",omitempty"`
	}{s.Owner, s.RKE2, s.Workers, s.Load, s.Experiments(), s.ClusterAutoscaler()})
	return Identity{Experiment: experiment, File: sum(file), Site: sum(counts), Options: append([]string{}, options...)}, err
}

func sum(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data))[:16] }

// differs names what differs in another, with both values; nothing is the same.
func (i *Identity) differs(from *Identity) string {
	for _, d := range []struct {
		what    string
		is, was any
	}{
		{"experiment", i.Experiment, from.Experiment},
		{"options", i.Options, from.Options},
		{"the experiment's file, by its sum,", i.File, from.File},
		{"the site's file, by the sum of what counts for runs,", i.Site, from.Site},
	} {
		if is, was := fmt.Sprint(d.is), fmt.Sprint(d.was); is != was {
			return fmt.Sprintf("%s was %s there and is %s now", d.what, was, is)
		}
	}
	return ""
}

// The files that are kept: of all runs, and of each.
const (
	identityFile   = "experiment.json"
	trialFile      = "trial.json"
	journalFile    = "journal.ndjson"
	summaryFile    = "summary.json"
	prometheusFile = "prometheus.json"
)

// same wants what is kept to be of this experiment.
func (w *World) same() error {
	var kept Identity
	found, err := rke2.ReadJSON(w.Keep(""), identityFile, &kept)
	if err != nil || !found {
		return err
	}
	if d := w.Identity.differs(&kept); d != "" {
		return fmt.Errorf("the folder has runs of another experiment: %s", d)
	}
	return nil
}

// begin writes down what the runs are of, before the first.
func (w *World) begin() error { return rke2.WriteJSON(w.Keep(""), identityFile, &w.Identity) }

// finished is a run's result, if it was made.
func finished(kept rke2.Store) (*testbed.Trial, error) {
	var t testbed.Trial
	found, err := rke2.ReadJSON(kept, trialFile, &t)
	if !found {
		return nil, err
	}
	return &t, err
}
