package upstream_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/testbed/lab/upstream"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// deviations are how a scan of the client may differ from the recorded one, each with the reason.
// How often a scan asks the same is not compared: the recorded one asks again where the client
// remembers.
var deviations = map[string]string{
	"listed":     "all groups are listed every two minutes, beside the scans and counted from another moment; and again at once where that failed",
	"remembered": "an instance that is gone is asked for until all groups are listed anew, which comes at another time",
	"imagined":   "of nodes that are to come it makes nodes to simulate with, under names of their own, and asks whose they are",
	"when":       "a node that was emptied is deleted by a task beside the scans, which began in the scan before: the client deletes it in the scan after",
	"deletion":   "when nodes were deleted or an increase was not answered, it asks once more what new ones look like",
	"once":       "what label devices have is asked when the first node is seen, or the first order made: here with the order",
	"late":       "calls that hang are told when they end, which may be in a scan after the one that they were made in",
}

// flags are those that the recorded cluster-autoscaler was run with, as far as its actions show
// them.
func flags(part string) nodepolicy.Unneeded {
	f := nodepolicy.DefaultUnneeded()
	seconds := func(n int) nodescaler.Duration { return nodescaler.Duration(time.Duration(n) * time.Second) }
	f.EnforceNodeGroupMinSize = true
	f.MaxNodeProvisionTime, f.ScaleDownUnneededTime = seconds(40), seconds(20)
	f.ScaleDownDelayAfterAdd, f.ScaleDownDelayAfterFailure = seconds(10), seconds(10)
	f.InitialNodeGroupBackoffDuration, f.MaxNodeGroupBackoffDuration = seconds(30), seconds(60)
	if part == "b" {
		f.InitialNodeGroupBackoffDuration = seconds(60)
	}
	return f
}

// The client, put into the place of the recorded cluster-autoscaler, asks in every scan what that
// asked, in its order, and orders and deletes what that did when it did. The part without a record
// of its cluster is omitted.
func TestClientFollowsTheRecordedConversation(t *testing.T) {
	total, scans, calls := map[string]int{}, 0, 0
	for _, part := range []string{"b", "c"} {
		expander := upstream.LeastWaste
		if part == "b" {
			expander = upstream.Price
		}
		t.Run("part "+part, func(t *testing.T) {
			s := newStage(partOf(t, part))
			c := must.Get(upstream.New(upstream.Config{Provider: s, Cluster: s, Unneeded: flags(part), Expander: expander, Now: s.clock}))(t)
			d := &comparison{t: t, stage: s, deviant: map[string]int{}}
			d.play(c)
			t.Logf("part %s: %d scans, %d recorded calls; differing: %v", part, d.scans, d.calls, d.deviant)
			for name, n := range d.deviant {
				total[name] += n
			}
			scans, calls = scans+d.scans, calls+d.calls
		})
	}
	if scans == 0 {
		return
	}
	t.Logf("in all: %d scans, %d recorded calls", scans, calls)
	for _, name := range slices.Sorted(maps.Keys(deviations)) {
		t.Logf("%4d times %q: %s", total[name], name, deviations[name])
		if total[name] == 0 {
			t.Errorf("nothing differs as %q", name)
		}
	}
}

// comparison holds the scans of the client against the recorded ones.
type comparison struct {
	t *testing.T
	*stage
	scans, calls int
	deviant      map[string]int
	// deleted is when nodes were, by the recording and by the client.
	deleted [2]map[string]time.Duration
}

func (d *comparison) play(c *upstream.Client) {
	d.deleted = [2]map[string]time.Duration{{}, {}}
	cut := scenes(d.all)
	d.start(c)
	for i := range cut {
		sc := &cut[i]
		d.begin(sc)
		if _, err := c.Once(d.t.Context()); err != nil && !strings.Contains(err.Error(), "as recorded") {
			d.t.Fatalf("%s: %v", sc.at, err)
		}
		if slices.ContainsFunc(sc.lines, func(r recorded) bool { return r.call != nil && r.call.method == "Cleanup" }) {
			if err := c.End(d.t.Context()); err != nil {
				d.t.Error(err)
			}
		}
		d.compare(sc)
	}
	for name, at := range d.deleted[0] {
		if ours, did := d.deleted[1][name]; !did || (ours-at).Abs() > 10*time.Second {
			d.t.Errorf("%s was deleted at %s, and by the client at %s", name, at, ours)
		}
	}
	for name, at := range d.deleted[1] {
		if d.deleted[0][name] == 0 {
			d.t.Errorf("the client deleted %s at %s", name, at)
		}
	}
}

// start is what is asked before the first scan, with the answers of then.
func (d *comparison) start(c *upstream.Client) {
	first := scene{lines: d.all[:len(d.all)/20]}
	i := slices.IndexFunc(d.all, func(r recorded) bool { return r.call != nil })
	first.at = d.all[i].at
	was := d.next
	d.begin(&first)
	d.next = was
	must.Do(d.t, c.Begin(d.t.Context()))
	if got, want := fmt.Sprint(d.stage.calls), "[NodeGroups NodeGroupNodes(big) NodeGroupNodes(small)]"; got != want {
		d.t.Errorf("before the first scan: %s, want %s", got, want)
	}
}

// compare holds a scan against the recorded one: what is asked of what, and the order of kinds.
func (d *comparison) compare(sc *scene) {
	d.scans++
	var theirs []heard
	for i := range sc.lines {
		if e := sc.lines[i].call; e != nil {
			d.calls++
			theirs = append(theirs, about(e))
			d.note(0, about(e), sc.lines[i].at)
		}
	}
	for _, h := range d.stage.calls {
		d.note(1, h, sc.at)
	}
	for _, h := range without(theirs, d.stage.calls) {
		d.differs(sc, h, "the client does not ask")
	}
	for _, h := range without(d.stage.calls, theirs) {
		d.differs(sc, h, "the recorded one does not ask")
	}
	both := func(of, other []heard) (kinds []string) {
		for _, h := range of {
			if ordered(h) && slices.Contains(other, h) && !slices.Contains(kinds, h.method) {
				kinds = append(kinds, h.method)
			}
		}
		return kinds
	}
	if want, got := both(theirs, d.stage.calls), both(d.stage.calls, theirs); !slices.Equal(want, got) {
		d.t.Errorf("%s: the order is %v, was recorded as %v", sc.at, got, want)
	}
}

// ordered reports whether a call has its place in a scan: not what is done beside scans, nor what
// is asked of nodes, which is interleaved with what is asked of groups as a map's order has it.
func ordered(h heard) bool {
	switch h.method {
	case "NodeGroupForNode", "NodeGroupTemplateNodeInfo", "NodeGroupNodes", "NodeGroupDeleteNodes", "GPULabel", "GetAvailableGPUTypes":
		return false
	}
	return true
}

// without are those of some calls that others do not have, each once.
func without(some, others []heard) (left []heard) {
	for _, h := range some {
		if !slices.Contains(others, h) && !slices.Contains(left, h) {
			left = append(left, h)
		}
	}
	return left
}

// note remembers when nodes were deleted. Placeholders are not nodes, and are deleted in the scan
// that finds them failed.
func (d *comparison) note(whose int, h heard, at time.Duration) {
	if h.method == "NodeGroupDeleteNodes" && !strings.Contains(h.about, "://") && d.deleted[whose][h.about] == 0 {
		d.deleted[whose][h.about] = at
	}
}

// differs finds the reason for a difference, and fails without one.
func (d *comparison) differs(sc *scene, h heard, how string) {
	name := d.reason(sc, h)
	if name == "" {
		d.t.Errorf("%s: %s %s", sc.at, how, h)
		return
	}
	d.deviant[name]++
}

func (d *comparison) reason(sc *scene, h heard) string {
	hung := slices.ContainsFunc(sc.lines, func(r recorded) bool { return r.call != nil && r.call.refused == "DeadlineExceeded" })
	switch {
	case h.method == "NodeGroupNodes":
		return "listed"
	case h.method == "NodeGroupForNode" && strings.HasPrefix(h.about, "lab://"):
		return "remembered"
	case h.method == "NodeGroupForNode" && strings.Contains(h.about, "-upcoming-"):
		return "imagined"
	case h.method == "NodeGroupDeleteNodes" && !strings.Contains(h.about, "://"):
		return "when"
	case h.method == "NodeGroupTemplateNodeInfo":
		return "deletion"
	case h.method == "GPULabel":
		return "once"
	case hung:
		return "late"
	}
	return ""
}
