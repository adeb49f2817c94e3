package testbedverb

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/testbed/replay"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// profileQuestion is what so many pods serve.
type profileQuestion struct {
	file         string
	perPod, base float64
	usual        bool   // nothing was said
	text         []byte // of the file
	given        profileFile
	words        string // the profile as people write it
}

// profileFile is a profile as it is written down. One of the keys is there.
type profileFile struct {
	Linear    *linearProfile    `json:"linear,omitempty" strict:"oneof=profile"`
	Quadratic *quadraticProfile `json:"quadratic,omitempty" strict:"oneof=profile"`
	Table     []profilePoint    `json:"table,omitempty" strict:"oneof=profile"`
}

// linearProfile is P(x) = perPod·x + base.
type linearProfile struct {
	PerPod float64 `json:"perPod" strict:"required"`
	Base   float64 `json:"base,omitempty"`
}

// quadraticProfile is P(x) = a·x² + b·x + c.
type quadraticProfile struct {
	A float64 `json:"a" strict:"required"`
	B float64 `json:"b" strict:"required"`
	C float64 `json:"c,omitempty"`
}

// profilePoint is a measurement.
type profilePoint struct {
	Pods  int     `json:"pods" strict:"required"`
	Total float64 `json:"total" strict:"required"`
}

const exampleProfile = `
  linear: {perPod: 125, base: 209}           # P(x) = 125·x + 209 requests a second
  quadratic: {a: -0.5, b: 130, c: 200}       # or this; from its peak on it is held there
  table: [{pods: 1, total: 330}, {pods: 4, total: 700}]  # or what was measured, straight between
`

func (q *profileQuestion) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Float64Var(&q.perPod, "per-pod", 125, "the requests a second that each pod adds to what all serve")
	f.Float64Var(&q.base, "base", 209, "the requests a second that pods serve in addition to --per-pod")
	f.StringVar(&q.file, "profile", "", "a YAML `file` with the profile in place of --per-pod and --base: linear, quadratic or table")
}

// check refuses flags that mean nothing together.
func (q *profileQuestion) check(cmd *cobra.Command) (faults []error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case given("profile"):
		for _, name := range []string{"per-pod", "base"} {
			if given(name) {
				faults = append(faults, fmt.Errorf("--%s: must be omitted with --profile, which says it", name))
			}
		}
	case given("per-pod") && !given("base"):
		faults = append(faults, errors.New("--base: must be given with --per-pod, 0 without a base"))
	case given("base") && !given("per-pod"):
		faults = append(faults, errors.New("--per-pod: must be given with --base"))
	default:
		q.usual = !given("per-pod")
		if _, err := capacity.Linear(q.perPod, q.base); err != nil {
			faults = append(faults, q.named(err))
		}
	}
	return faults
}

// named puts the flag before what is wrong with its value.
func (q *profileQuestion) named(err error) error {
	key, rule, found := strings.Cut(strings.TrimPrefix(err.Error(), "linear profile: "), ": ")
	switch {
	case found && key == "perPod":
		return errors.New("--per-pod: " + rule)
	case found && key == "base":
		return errors.New("--base: " + rule)
	}
	return errors.New("--per-pod and --base: " + key)
}

// read puts the profile into the setting.
func (q *profileQuestion) read(env *cli.Env, into *replay.Setting) (err error) {
	if q.file == "" {
		q.given.Linear = &linearProfile{q.perPod, q.base}
		into.Profile, q.words, err = q.given.profile()
		return err
	}
	if q.text, err = env.ReadFile(q.file); err != nil {
		return cli.WithCode(cli.ExitConfig, fmt.Errorf("--profile: %w", err))
	}
	if err := strict.Unmarshal(q.text, &q.given); err != nil {
		return cli.Misconfigured(q.file, err)
	}
	if into.Profile, q.words, err = q.given.profile(); err != nil {
		return cli.Misconfigured(q.file, err)
	}
	q.words += " (" + filepath.Base(q.file) + ")"
	return nil
}

func linearWords(perPod, base float64) string { return fmt.Sprintf("%v·x + %v", perPod, base) }

// profile is what the file says, and as people write it.
func (f *profileFile) profile() (capacity.Profile, string, error) {
	switch {
	case f.Linear != nil:
		p, err := capacity.Linear(f.Linear.PerPod, f.Linear.Base)
		return p, linearWords(f.Linear.PerPod, f.Linear.Base), err
	case f.Quadratic != nil:
		p, err := capacity.Quadratic(f.Quadratic.A, f.Quadratic.B, f.Quadratic.C)
		return p, fmt.Sprintf("%v·x² + %v·x + %v", f.Quadratic.A, f.Quadratic.B, f.Quadratic.C), err
	}
	points := make([]capacity.Point, len(f.Table))
	for i, p := range f.Table {
		points[i] = capacity.Point(p)
	}
	p, err := capacity.Table(points...)
	return p, fmt.Sprintf("a table of %d points", len(points)), err
}
