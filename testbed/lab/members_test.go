package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// ship is a part in this process that writes down what happens to it.
type ship struct {
	name  string
	log   *[]string
	wreck error // what its start fails with
	ended chan error
}

func (s *ship) Name() string { return s.name }

func (s *ship) Start(context.Context, *Lab) (*Running, error) {
	*s.log = append(*s.log, "start "+s.name)
	if s.wreck != nil {
		return nil, s.wreck
	}
	s.ended = make(chan error, 1)
	return &Running{
		Endpoints: []Endpoint{{"bridge", "ship://" + s.name}},
		Ended:     s.ended,
		Stop: func(context.Context) error {
			*s.log = append(*s.log, "stop "+s.name)
			close(s.ended)
			return nil
		},
	}, nil
}

// fleet is a lab of these parts alone: what is said of the others does not depend on the control
// plane.
func fleet(t *testing.T, parts ...Part) *Lab {
	t.Helper()
	l := must.Get(open(Config{Data: t.TempDir(), Parts: parts, Progress: func(line string) { t.Log(line) }}))(t)
	l.members = l.members[1:]
	t.Cleanup(func() { _ = l.Down() })
	return l
}

func states(l *Lab) string {
	var all []string
	for _, s := range l.Status() {
		all = append(all, s.Name+" "+string(s.State))
	}
	return strings.Join(all, ", ")
}

func TestPartsStartInOrderAndStopInReverse(t *testing.T) {
	var log []string
	l := fleet(t, &ship{name: "a", log: &log}, &ship{name: "b", log: &log}, &ship{name: "c", log: &log})
	if got, want := states(l), "a waiting, b waiting, c waiting"; got != want {
		t.Errorf("before: %s, want %s", got, want)
	}
	if err := l.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Stop(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if got, want := states(l), "a up, b stopped, c up"; got != want {
		t.Errorf("one is stopped: %s, want %s", got, want)
	}
	if got := l.Endpoint("b", "bridge") + l.Endpoint("a", "bridge") + l.Endpoint("a", "keel"); got != "ship://a" {
		t.Errorf("endpoints are %q, want those of parts that are up", got)
	}
	if err := l.Start(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second has nothing to do
		if err := l.Down(); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"start a", "start b", "start c", "stop b", "start b", "stop c", "stop b", "stop a"}
	if diff := cmp.Diff(want, log); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
}

func TestLabThatCannotStartLeavesNothing(t *testing.T) {
	var log []string
	l := fleet(t, &ship{name: "a", log: &log}, &ship{name: "b", log: &log, wreck: errors.New("aground")}, &ship{name: "c", log: &log})
	if err := l.start(t.Context()); err == nil || err.Error() != "b: aground" {
		t.Errorf("start: %v, want b: aground", err)
	}
	if err := l.Down(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"start a", "start b", "stop a"}, log); diff != "" {
		t.Errorf("what happened (-want +got):\n%s", diff)
	}
	if got, want := states(l), "a stopped, b ended, c waiting"; got != want {
		t.Errorf("after: %s, want %s", got, want)
	}
}

func TestPartThatEndsIsToldInTheRecord(t *testing.T) {
	var log []string
	s := &ship{name: "a", log: &log}
	l := fleet(t, s)
	if err := l.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err := Look(l.Data()); err != nil || !r.Up || !r.Ready {
		t.Fatalf("from outside: %+v, %v, want it up and ready", r, err)
	}
	s.ended <- errors.New("sprang a leak")
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r := must.Get(Look(l.Data()))(t)
		if p := r.Parts[0]; p.State == StateEnded && p.Fault == "sprang a leak" && len(p.Endpoints) == 0 {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("from outside: %+v, want it ended", p)
		}
	}
}

func TestOneLabAtATimeInAFolder(t *testing.T) {
	l := fleet(t)
	if _, err := open(Config{Data: l.Data()}); err == nil || err.Error() != "data: a lab is up in "+l.Data() {
		t.Errorf("a second one: %v, want it refused", err)
	}
	if err := l.Down(); err != nil {
		t.Fatal(err)
	}
	again, err := open(Config{Data: l.Data()})
	if err != nil {
		t.Fatalf("after it is down: %v", err)
	}
	if err := again.Down(); err != nil {
		t.Error(err)
	}
}

func TestFolderOfALabThatWasKilledTellsNoLies(t *testing.T) {
	var log []string
	l := fleet(t, &ship{name: "a", log: &log})
	if err := l.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.lock.release(); err != nil { // as the system does for a process that is gone
		t.Fatal(err)
	}
	l.lock = nil
	r := must.Get(Look(l.Data()))(t)
	if r.Up || r.Ready || r.PID != 0 || r.Parts[0].State != StateStopped || r.Parts[0].Endpoints != nil {
		t.Errorf("from outside: %+v, want nothing up", r)
	}
	if _, err := Look(filepath.Join(l.Data(), "none")); !errors.Is(err, ErrNoLab) {
		t.Errorf("a folder without a lab: %v, want ErrNoLab", err)
	}
}

func TestConfigIsRefusedByKeyRuleAndValue(t *testing.T) {
	part := func(name string) Part { return &ship{name: name} }
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "data: a lab needs a folder"},
		{Config{Data: "x", Parts: []Part{part("Kwok")}}, `parts: a name must be lower-case letters, digits and hyphens, was "Kwok"`},
		{Config{Data: "x", Parts: []Part{part("../x")}}, `parts: a name must be lower-case letters, digits and hyphens, was "../x"`},
		{Config{Data: "x", Parts: []Part{part("a"), part("a")}}, `parts: each must have a name of its own, "a" is there twice`},
		{Config{Data: "x", Parts: []Part{part(ControlPlanePart)}}, `parts: each must have a name of its own, "controlplane" is there twice`},
	} {
		if _, err := open(c.cfg); fmt.Sprint(err) != c.want {
			t.Errorf("%+v: %v, want %s", c.cfg, err, c.want)
		}
	}
	l := fleet(t)
	if err := l.Stop(t.Context(), "kwok"); fmt.Sprint(err) != `the lab has no part "kwok"` {
		t.Errorf("a part that is not there: %v", err)
	}
}
