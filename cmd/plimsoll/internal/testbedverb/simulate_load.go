package testbedverb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

// loadQuestion is where the simulate verb has its load from.
type loadQuestion struct {
	trace        string
	workload     string // whose load is taken of a journal
	skip, length time.Duration
	least        time.Duration // of a load that is made up, unless its length is said
	query        promQuestion
	redraw       int // regimes
}

// recorded is a load with what is known of it.
type recorded struct {
	*replay.Trace
	from   time.Time // of its first minute; zero if that is not known
	madeUp bool      // so that how large it is means nothing
	// zoneless loads have dates that do not say their zone.
	zoneless bool
}

// usualLength is how much of a load is made up, unless that is said.
const usualLength = 7 * 24 * time.Hour

func loadsHelp() string {
	var b strings.Builder
	for _, l := range replay.Synthetics() {
		fmt.Fprintf(&b, "  %-18s %s\n", l.Name, l.Title)
	}
	return b.String()
}

func (q *loadQuestion) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	var names []string
	for _, l := range replay.Synthetics() {
		names = append(names, l.Name)
	}
	f.StringVar(&q.trace, "trace", "", "a `file` with lines of minute,count or of time,rate, Prometheus' answer to a range query, or a journal; - for standard input, or "+strings.Join(names, " or "))
	f.StringVar(&q.workload, "workload", "", "of a journal, the `namespace/name` whose requests are played (default: the only one)")
	cli.AddFlag(cmd, &q.skip, wholeMinutes, "trace-from", "duration", "", "how far into the file to begin, such as 9d")
	cli.AddFlag(cmd, &q.length, wholeMinutes, "trace-length", "duration", "", "how much of it to take (default: all that is left, and 7d of one that is made up, 21d with --tune)")
	cli.AddFlag(cmd, &q.redraw, cli.AtLeastOne, "redraw", "regimes", "", "fit this many regimes to the load (MMPP), and play a load of the same length drawn from them by --seed")
	q.query.addFlags(cmd)
	err := cmd.RegisterFlagCompletionFunc("trace", cobra.FixedCompletions(names, cobra.ShellCompDirectiveDefault))
	if err != nil {
		panic(err)
	}
}

// check refuses flags that mean nothing together.
func (q *loadQuestion) check(cmd *cobra.Command) (faults []error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	switch {
	case given("trace") && given("query"):
		faults = append(faults, errors.New("--query: must be omitted with --trace, there is one load"))
	case given("query"):
		faults = append(faults, q.query.check(given)...)
	case !given("trace"):
		faults = append(faults, errors.New("--trace: must be given, or --query"))
	case q.trace == "":
		faults = append(faults, errors.New(`--trace: must be a file, - or the name of a load, was ""`))
	}
	for _, name := range []string{"trace-from", "trace-length", "workload"} {
		if given(name) && !given("trace") {
			faults = append(faults, fmt.Errorf("--%s: must be given with --trace only, see --from and --last", name))
		}
	}
	for _, name := range promFlags {
		if given(name) && !given("query") {
			faults = append(faults, fmt.Errorf("--%s: must be given with --query only, which it is for", name))
		}
	}
	return faults
}

// read reads the load, and draws another in its place if that was asked for.
func (q *loadQuestion) read(ctx context.Context, env *cli.Env, seed uint64) (*recorded, error) {
	load, err := q.readRecorded(ctx, env, seed)
	if err != nil || q.redraw == 0 {
		return load, err
	}
	return q.redrawn(env, load, seed)
}

func (q *loadQuestion) readRecorded(ctx context.Context, env *cli.Env, seed uint64) (*recorded, error) {
	if q.query.promQL != "" {
		return q.query.read(ctx, env)
	}
	load, err := q.open(env, seed)
	if err == nil {
		err = load.Validate()
	}
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("--trace: %w", err))
	}
	if load.zoneless {
		fmt.Fprintf(env.Stderr, "note: --trace: the dates of %s have no zone and are taken for UTC\n", load.Name)
	}
	return load, q.cut(load)
}

// redrawn is a load that is like one and not the same, and says what that one was taken for.
func (q *loadQuestion) redrawn(env *cli.Env, load *recorded, seed uint64) (*recorded, error) {
	m, err := replay.Fit(load.Trace, q.redraw)
	if err != nil {
		return nil, cli.Misused("--redraw: %w", err)
	}
	var regimes []string
	for i, rate := range m.Rates {
		stays := "for good"
		if leaves := 1 - m.Transitions[i][i]; leaves > 0 {
			stays = fmt.Sprintf("for %.3g minutes", 1/leaves)
		}
		regimes = append(regimes, fmt.Sprintf("%.1f requests a minute %s", rate, stays))
	}
	fmt.Fprintf(env.Stderr, "note: --redraw: %s has regimes of, in the mean, %s\n", load.Name, strings.Join(regimes, ", "))
	drawn := replay.Draw(load.Name+", redrawn", m, len(load.Counts), seed)
	return &recorded{Trace: drawn, madeUp: load.madeUp}, nil
}

// open reads the whole of the load that --trace names.
func (q *loadQuestion) open(env *cli.Env, seed uint64) (*recorded, error) {
	for _, l := range replay.Synthetics() {
		if l.Name == q.trace {
			return &recorded{Trace: l.Make(q.daysToMake(), seed), madeUp: true}, nil
		}
	}
	name := filepath.Base(q.trace)
	var data []byte
	var err error
	if q.trace == "-" {
		name = "standard input"
		data, err = io.ReadAll(env.Stdin)
	} else {
		data, err = env.ReadFile(q.trace)
	}
	if err != nil {
		return nil, err
	}
	data = withoutPreamble(data)
	if isJournal(data) {
		return journalLoad(name, data, q.workload)
	}
	if q.workload != "" {
		return nil, fmt.Errorf("--workload: must be omitted with %s, which is no journal, was %q", name, q.workload)
	}
	if load, is, err := readExport(name, data); is {
		return load, err
	}
	t, err := replay.ReadCSV(name, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return &recorded{Trace: t}, nil
}

// withoutPreamble takes off what is for spreadsheets: the mark of UTF-8, and a line that names the
// separator.
func withoutPreamble(data []byte) []byte {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if first, rest, _ := bytes.Cut(data, []byte("\n")); string(bytes.TrimSpace(first)) == "sep=," {
		return rest
	}
	return data
}

// daysToMake is how many days hold the part that is played.
func (q *loadQuestion) daysToMake() int {
	if q.length == 0 {
		q.length = max(usualLength, q.least)
	}
	const day = 24 * time.Hour
	return int((q.skip + q.length + day - 1) / day)
}

// cut leaves the part of the load that was asked for.
func (q *loadQuestion) cut(load *recorded) error {
	if q.skip == 0 && q.length == 0 {
		return nil
	}
	have := len(load.Counts)
	from := int(q.skip / time.Minute)
	if from > have-2 {
		return cli.Misused("--trace-from: must leave 2 minutes at least of %s, was %s", days(time.Duration(have)*time.Minute), days(q.skip))
	}
	to := have
	if q.length != 0 {
		to = from + int(q.length/time.Minute)
		if to < from+2 && load.madeUp { // as much of it as is asked for
			return cli.Misused("--trace-length: must be 2m or more, was %s", days(q.length))
		}
		if to > have || to < from+2 {
			return cli.Misused("--trace-length: must be from 2m to %s from there on, was %s", days(time.Duration(have-from)*time.Minute), days(q.length))
		}
	}
	load.Trace = &replay.Trace{Name: load.Name, Counts: load.Counts[from:to:to]}
	if !load.from.IsZero() {
		load.from = load.from.Add(q.skip)
	}
	return nil
}

// writeLoad writes a load as ReadCSV reads it.
func writeLoad(w io.Writer, t *replay.Trace) error {
	line := []byte("minute,count\n")
	var b bytes.Buffer
	b.Write(line)
	for i, n := range t.Counts {
		line = strconv.AppendInt(line[:0], int64(i), 10)
		line = append(line, ',')
		line = strconv.AppendFloat(line, n, 'f', -1, 64)
		b.Write(append(line, '\n'))
	}
	_, err := w.Write(b.Bytes())
	return err
}
