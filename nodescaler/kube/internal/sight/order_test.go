package sight

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
)

// Pods come, go and are read anew between looks, and two looks may go by different ones. Each has
// all of its pods in the order of their names.
func TestPodsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		chance := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		there := map[string]*kept.Pod{}
		for range rapid.IntRange(1, 6).Draw(t, "looks") {
			for range rapid.IntRange(0, 30).Draw(t, "changes") {
				p := &kept.Pod{}
				if p.Said.Name = fmt.Sprint("shop/", chance.IntN(40)); chance.IntN(3) == 0 {
					delete(there, p.Said.Name)
				} else {
					there[p.Said.Name] = p
				}
			}
			var all []*kept.Pod // in no order, and not all of them
			for _, p := range there {
				if chance.IntN(9) > 0 {
					all = append(all, p)
				}
			}
			want := slices.SortedFunc(slices.Values(all), func(a, b *kept.Pod) int { return strings.Compare(a.Said.Name, b.Said.Name) })
			if got := inOrder(all); !slices.Equal(got, want) {
				t.Fatalf("%d pods are not in order", len(got))
			}
		}
	})
}
