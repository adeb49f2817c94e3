package explain

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/golden"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func number(v float64) *float64 { return &v }

// busy is a step in which everything happens that can be explained.
func busy() *loop.Step {
	shape := pricing.Shape{Name: "medium", CPU: 4000, Memory: 8 * pricing.GB}
	reason := func(code, text string) []nodescaler.Reason { return []nodescaler.Reason{{Code: code, Text: text}} }
	at := time.Date(2026, 6, 1, 14, 10, 5, 0, time.UTC)
	return &loop.Step{
		ID: "d-000042", Time: at,
		Observed: loop.Observed{
			Machines: map[nodescaler.Phase]int{nodescaler.Joined: 4, nodescaler.Booting: 1, nodescaler.Failed: 1},
			Hosts: []loop.HostLoad{
				{Name: "pve1", Online: true, Room: pricing.Resources{CPU: 16000}, Machines: []loop.MachineLoad{{Shape: shape}, {Shape: pricing.Shape{CPU: 500}}}},
				{Name: "pve2", Room: pricing.Resources{CPU: 16000}},
			},
			Nodes: 5, Pods: 14, Pending: 2,
			Cost: loop.Cost{Unit: "EUR", Joined: pricing.RateOf(101_000), Ordered: pricing.RateOf(134_000), Spent: 1_020_000},
		},
		Workloads: []loop.WorkloadStep{
			{
				Workload: "shop/web", Replicas: 12, Ready: 11, Pending: 1,
				Inputs: &loop.Inputs{LatencyMs: number(340.4), TargetMs: 300, Good: number(.8423), Arrivals: number(212.04), InFlight: number(72), Errors: number(.0312), Registered: number(10)},
				Decision: &podscaler.Decision{Workload: "shop/web", From: 12, Proposed: 16, To: 14, Known: true, Reasons: []podscaler.Reason{
					{Code: podscaler.ReasonSLOCostRatio, Text: "k 1.3 = 0.5 × 1.1 + 0.5 × 1"},
					{Code: podscaler.ReasonScaleUpLimit, Text: "16 wanted, at most 14 allowed now"},
				}},
			},
			{
				Workload: "shop/cart", Replicas: 3, Ready: 3, Inputs: &loop.Inputs{TargetMs: 200},
				Decision: &podscaler.Decision{Workload: "shop/cart", From: 3, Proposed: 3, To: 3, Reasons: reason(podscaler.ReasonLatencyUnknown, "the p90 could not be measured")},
			},
			{Workload: "shop/mail", Replicas: 1, Ready: 1, Resize: &rightsize.Order{
				Pod: "shop/mail-0", Reasons: reason(rightsize.ReasonOutsideBounds, "container app requests 100m of cpu, which is less than 300m"),
				Changes: []rightsize.Change{{Container: "app", Requests: pricing.Resources{CPU: 420, Memory: 256 * pricing.MiB}}},
			}},
			{
				Workload: "shop/feed", Replicas: 5, Ready: 5,
				Decision: &podscaler.Decision{Workload: "shop/feed", From: 5, Proposed: 4, To: 4, Known: true},
			},
		},
		Plan: nodescaler.Plan{
			Actions: []nodescaler.Action{
				{Kind: nodescaler.Buy, Order: "mp1-0", Pool: "worker", Shape: &shape, Host: "pve2", Rate: pricing.RateOf(33_600), Reasons: reason(nodescaler.PodsPending, "2 pods (a, b) that no node can take")},
				{Kind: nodescaler.Cordon, Node: "worker-mp0-0", Reasons: reason(nodescaler.NodeUnneeded, "used 12 %")},
				{Kind: nodescaler.Evict, Pod: "shop/web-7", Node: "worker-mp0-0", Reasons: reason(nodescaler.NodeDraining, "worker-mp0-0 is being emptied")},
				{Kind: nodescaler.Return, Machine: "worker-mp9-0", Rate: -pricing.RateOf(33_600), Reasons: reason(nodescaler.MachineFailed, "clone failed")},
				{Kind: nodescaler.Uncordon, Node: "worker-mp3-0"},
			},
			Reasons:   reason(nodescaler.PoolAtMax, "worker has 6 of 6 machines"),
			LookAgain: at.Add(15 * time.Second),
		},
		Outcomes: []loop.Outcome{
			{Action: -1, Workload: "shop/web"}, {Action: -1, Workload: "shop/feed", Error: "conflict"},
			{Action: -1, Workload: "shop/mail", Pod: "shop/mail-0", Error: "the node has no room"},
			{Action: 0, Error: "no room on the host"}, {Action: 1}, {Action: 2, Error: "disruption budget used up"}, {Action: 3},
		},
		Problems: reason(loop.CodeSignalsUnknown, "shop/cart: the metrics server does not answer"),
	}
}

func TestTreesTellEverythingThatTheRecordHolds(t *testing.T) {
	blind := &loop.Step{ID: "d-000001", Time: busy().Time, Observed: loop.Observed{Nodes: 2, Pods: 3},
		Problems: []nodescaler.Reason{{Code: loop.CodeMachinesUnknown, Text: "connection refused"}, {Code: loop.CodeLooking, Text: "the first step after a start decides nothing"}}}
	blank := &loop.Step{ID: "d-000002", Time: busy().Time, Problems: []nodescaler.Reason{{Code: loop.CodeClusterUnknown, Text: "observe cluster: no answer in time"}}}
	held := busy()
	hold := &nodescaler.Reason{Code: "Recommending", Text: "pool worker is in mode Recommend"}
	held.Workloads[0].Held = &nodescaler.Reason{Code: "Paused", Text: "paused by ann until 2026-06-01T16:00:00Z"}
	held.Outcomes = []loop.Outcome{{Action: 0, Held: hold}, {Action: 1, Held: hold}}
	quiet := busy()
	quiet.Workloads, quiet.Problems, quiet.Outcomes = nil, nil, nil
	quiet.Plan = nodescaler.Plan{Reasons: quiet.Plan.Reasons}
	quiet.Observed.Pending, quiet.Observed.Machines = 0, map[nodescaler.Phase]int{}
	for _, c := range []struct {
		name  string
		step  *loop.Step
		width int
	}{{"busy", busy(), 0}, {"blind", blind, 0}, {"blank", blank, 0}, {"quiet", quiet, 0}, {"narrow", busy(), 60}, {"held", held, 0}} {
		t.Run(c.name, func(t *testing.T) {
			golden.Compare(t, "testdata/"+c.name+".txt", strings.Join(Tree(c.step).Lines(c.width), "\n")+"\n")
		})
	}
}

func TestWhenToLookAgainIsLeftOutWhereItIsAtOnce(t *testing.T) {
	for wait, want := range map[time.Duration]string{
		time.Nanosecond: "", 0: "", 9900 * time.Millisecond: "in 10s at the latest",
	} {
		s := busy()
		s.Plan.LookAgain = s.Time.Add(wait)
		got := strings.Join(Tree(s).Lines(0), "\n")
		if strings.Contains(got, "look again") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("%s: want %q in\n%s", wait, want, got)
		}
	}
}

func TestBrokenLinesLoseNoWordAndKeepTheWidth(t *testing.T) {
	words := func(lines []string) string {
		text := strings.NewReplacer("│", " ", "├─", " ", "└─", " ").Replace(strings.Join(lines, " "))
		return strings.Join(strings.Fields(text), " ")
	}
	whole := words(Tree(busy()).Lines(0))
	for width := 50; width < 200; width++ {
		lines := Tree(busy()).Lines(width)
		if got := words(lines); got != whole {
			t.Fatalf("%d wide: %s\nwant: %s", width, got, whole)
		}
		for _, l := range lines {
			if n := len([]rune(l)); n > width {
				t.Errorf("%d wide: a line of %d: %s", width, n, l)
			}
		}
	}
}

func TestRecordsAreFoundByIdAndNumberAndAsTheLastDecision(t *testing.T) {
	var journal bytes.Buffer
	j := loop.NewNDJSON(&journal)
	for i, id := range []string{"d-000001", "d-000042", "d-000043"} {
		s := &loop.Step{ID: id, Time: busy().Time}
		if i == 1 {
			s = busy()
		}
		must.Do(t, j.Append(s))
	}
	for _, c := range []struct{ ask, id, err string }{
		{ask: "last", id: "d-000042"},
		{ask: "43", id: "d-000043"},
		{ask: "d-1", id: "d-000001"},
		{ask: "d-000042", id: "d-000042"},
		{ask: "44", err: "there is no d-000044: the journal goes from d-000001 to d-000043"},
		{ask: "first", err: `must be last, a number such as 42 or an id such as d-000042, was "first"`},
		{ask: "0", err: `must be last, a number such as 42 or an id such as d-000042, was "0"`},
		{ask: "-1", err: `must be last, a number such as 42 or an id such as d-000042, was "-1"`},
	} {
		s, err := find(journal.String(), c.ask)
		switch {
		case c.err != "" && (err == nil || err.Error() != c.err):
			t.Errorf("%s: the error is %v, want %s", c.ask, err, c.err)
		case c.err == "" && (err != nil || s.ID != c.id):
			t.Errorf("%s finds %v (%v), want %s", c.ask, s, err, c.id)
		}
	}
	for text, want := range map[string]string{
		"": "the journal holds no record",
		`{"id":"d-000007","time":"2026-06-01T06:00:00Z"}` + "\n": "no step from d-000007 to d-000007 changed anything; name one, such as d-000007",
		"hello\n": "journal line 1 is not a record: invalid character 'h' looking for beginning of value",
	} {
		if _, err := find(text, "last"); err == nil || err.Error() != want {
			t.Errorf("in %q: %v, want %s", text, err, want)
		}
	}
}

func find(journal, ask string) (*loop.Step, error) {
	which, err := ParseWhich(ask)
	if err != nil {
		return nil, err
	}
	return Find(strings.NewReader(journal), which)
}
