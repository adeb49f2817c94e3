package policy

import (
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
)

func TestNumbersHaveTheOrderOfTheirText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 2500).Draw(t, "n")
		var got, want []string
		for i := range numbers(n) {
			got = append(got, strconv.Itoa(i))
		}
		for i := range n {
			want = append(want, strconv.Itoa(i+1))
		}
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// Orders name the pods that they are for, each once, those included that share a node with others.
func TestOrdersNameTheirPods(t *testing.T) {
	beside := aWorld().pod("a", "", 1000, 100).waiting(3, func(p *nodescaler.Pod) {
		joins(nodescaler.HostLabel, "app=web", "app=web")(p)
		p.Requests.CPU = 600
	})
	for _, s := range []*nodescaler.Snapshot{fleet(), &beside.Snapshot} {
		named := map[string]int{}
		plan := build(t, Spec{Policy: "joint"}).Decide(s)
		for i := range plan.Actions {
			a := &plan.Actions[i]
			if a.Kind == nodescaler.Buy && len(a.Pods) == 0 {
				t.Errorf("order %s names no pod", a.Order)
			}
			for _, p := range a.Pods {
				named[p]++
			}
		}
		for i := range s.Pods {
			if p := &s.Pods[i]; named[p.Name] > 1 || named[p.Name] == 1 && !p.Unschedulable || named[p.Name] == 0 && s == &beside.Snapshot {
				t.Errorf("%s is ordered for %d times", p.Name, named[p.Name])
			}
			delete(named, s.Pods[i].Name)
		}
		if len(named) > 0 {
			t.Errorf("ordered for what does not wait: %v", named)
		}
	}
}
