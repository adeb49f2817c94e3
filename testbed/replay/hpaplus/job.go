package hpaplus

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
	"github.com/plimsoll/plimsoll/podscaler/forecast"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/replay"
)

const (
	minutesADay = replay.MinutesADay
	// leadIn is how many minutes before the test forecasts begin: those in which scalers run and
	// are not counted, and a race's longest window before that.
	leadIn        = 120 + longestWindow
	longestWindow = 60
	// tooFewLost is the percentage of lost requests below which a change of them is chance.
	tooFewLost = 0.05
)

// job is an experiment on one draw of a trace, or on a recorded one.
type job struct {
	*Experiment
	source Source
	trial  int
	clock  func() time.Duration

	runs  []Outcome
	times []Timing
}

// rng is the job's chance.
func (j *job) rng() *rand.Rand { return rand.New(rand.NewPCG(j.Seed, uint64(j.trial))) }

func (j *job) do(ctx context.Context) error {
	switch j.Replay.Compare {
	case Models:
		return j.models()
	case Forecasters:
		return j.forecasters(ctx)
	}
	return j.scalers(ctx)
}

// add notes a run.
func (j *job) add(row string, c Case, requests float64, measures map[string]float64) *Outcome {
	rounded := map[string]testbed.Number{}
	for name, v := range measures {
		rounded[name] = testbed.Rounded(v)
	}
	j.runs = append(j.runs, Outcome{Trace: j.source.Name, Trial: j.trial, Row: row, Case: c, Measures: rounded, requests: int(requests)})
	return &j.runs[len(j.runs)-1]
}

// load is a trace at the size of a case, with the scalers' world.
type load struct {
	*replay.Trace
	train   int
	setting replay.Setting
}

// stage sets scalers in the world of a case.
type stage struct {
	*job
	trace *replay.Trace
	train int
	book  *book
	loads map[float64]*load // by size
}

func (j *job) stage() (*stage, error) {
	t, err := j.source.draw(j.trial, j.Experiment)
	if err != nil {
		return nil, err
	}
	train := j.Replay.Train * minutesADay
	rates := make([]float64, len(t.Counts))
	for i, n := range t.Counts {
		rates[i] = n / 60
	}
	return &stage{
		job: j, trace: t, train: train, loads: map[float64]*load{},
		book: &book{rates: rates, from: train - leadIn, said: map[string]*said{}},
	}, nil
}

// at returns the load of a case and the setting of its scalers.
func (s *stage) at(c Case) (*load, replay.Setting, error) {
	l := s.loads[c.Pods]
	if l == nil {
		made, err := s.sized(c.Pods)
		if err != nil {
			return nil, replay.Setting{}, err
		}
		l = made
		s.loads[c.Pods] = l
	}
	setting := l.setting
	setting.Excess, setting.Tolerance, setting.Timeout, setting.Seed = c.Excess, c.Tolerance, c.Timeout, s.Seed
	setting.Race = forecast.RaceSettings{Entrants: s.Replay.Entrants, Window: c.Window, Threshold: c.Threshold}
	return l, setting, nil
}

// sized multiplies the trace.
func (s *stage) sized(pods float64) (*load, error) {
	setting := replay.Default()
	p, err := s.Replay.profile()
	if err != nil {
		return nil, err
	}
	setting.Profile = p
	if s.Replay.MaxPods > 0 {
		setting.Max = s.Replay.MaxPods
	}
	t, err := replay.Scale(s.trace, s.train, pods, setting)
	if err != nil {
		return nil, err
	}
	setting.Models = s.book.models(sum(t.Counts) / sum(s.trace.Counts))
	return &load{Trace: t, train: s.train, setting: setting}, nil
}

func sum(values []float64) float64 {
	all := 0.0
	for _, v := range values {
		all += v
	}
	return all
}

// scalers plays the rows in every case.
func (j *job) scalers(ctx context.Context) error {
	s, err := j.stage()
	if err != nil {
		return err
	}
	swept := sweeps{}
	for _, c := range j.Cases() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if j.Replay.Compare == Equal {
			err = s.equal(c, swept)
		} else {
			err = s.same(c)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// same plays the rows at the same excess.
func (s *stage) same(c Case) error {
	l, setting, err := s.at(c)
	if err != nil {
		return err
	}
	base, err := s.play(l, s.Replay.Against[0], setting, nil)
	if err != nil {
		return err
	}
	for _, row := range s.Replay.Rows {
		var t tape
		var hear replay.Hear
		if s.trial == 1 && (s.Replay.Leaders || s.Replay.Course) {
			hear = t.hear
		}
		r, err := s.play(l, row, setting, hear)
		if err != nil {
			return err
		}
		run := s.add(row, c, r.Arrived, s.beside(&r, &base))
		run.Active = active(&r)
		if s.Replay.Leaders {
			run.Leaders = t.leaders
		}
		if s.Replay.Course {
			run.Course = t.course
		}
	}
	return nil
}

func (s *stage) play(l *load, row string, setting replay.Setting, hear replay.Hear) (replay.Result, error) {
	k, err := replay.Find(row)
	if err != nil {
		return replay.Result{}, err
	}
	return replay.Play(l.Trace, l.train, k, setting, hear)
}

// beside are the measures of a run beside another's.
func (s *stage) beside(r, base *replay.Result) map[string]float64 {
	m := map[string]float64{
		"lost": 100 * r.LostPart(), "podMinutes": float64(r.PodMinutes), "pods": r.MeanPods(), "moves": float64(r.Moves),
		"lostChange": math.NaN(), "podsChange": 100 * (float64(r.PodMinutes)/float64(base.PodMinutes) - 1),
	}
	if 100*base.LostPart() >= tooFewLost {
		m["lostChange"] = 100 * (r.Lost/base.Lost - 1)
	}
	for _, w := range s.Replay.Weights {
		cost := func(r *replay.Result) float64 { return r.Lost + w*float64(r.PodMinutes) }
		m[costMeasure(w).Name] = cost(r) / cost(base)
	}
	return m
}

// active is who decided for what part of the time.
func active(r *replay.Result) map[string]testbed.Number {
	if len(r.Leaders) == 0 {
		return nil
	}
	out := map[string]testbed.Number{}
	for _, l := range r.Leaders {
		out[l.Name] = testbed.Rounded(l.Part)
	}
	return out
}

// tape keeps what is heard of a run.
type tape struct {
	leaders []Turn
	course  []Mark

	arrived, lost float64
	pods          int
}

func (t *tape) hear(minute int, p capacity.Period, leader, why string) {
	if leader != "" && (len(t.leaders) == 0 || t.leaders[len(t.leaders)-1].Leader != leader) {
		t.leaders = append(t.leaders, Turn{Minute: minute, Leader: leader, Why: why})
	}
	t.arrived, t.lost, t.pods = t.arrived+p.Arrived, t.lost+p.Expired, t.pods+p.Pods
	if (minute+1)%60 == 0 && t.arrived > 0 {
		t.course = append(t.course, Mark{Hour: (minute + 1) / 60, Lost: testbed.Rounded(100 * t.lost / t.arrived), PodMinutes: t.pods})
	}
}
