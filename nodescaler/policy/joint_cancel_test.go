package policy

import (
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
)

// An order that has not begun is taken back once nothing has needed it for as long as another would
// take.
func TestJointCancelsOrdersThatNothingNeeds(t *testing.T) {
	waiting := func(w *sample.World) *sample.World {
		return w.Node("w-1", "pve1").Several(3, "a", "w-1", 600, 100).
			Machine("w-2", "pve2", nodescaler.Ordered, func(m *nodescaler.Machine) { m.Created, m.Since = time.Time{}, w.Now })
	}
	begun := func(w *sample.World) *sample.World {
		w = waiting(w)
		w.Machines[1].Created = w.Now
		return w
	}
	for _, c := range []struct {
		name  string
		world *sample.World
		after time.Duration
		want  []string
	}{
		{"nothing needs it", waiting(sample.New()), 4 * time.Minute, []string{"Return w-2"}},
		{"not for long", waiting(sample.New()), 2 * time.Minute, nil},
		{"a pod waits for it", waiting(sample.New()).Pod("b", "", 600, 100), 4 * time.Minute, nil},
		{"it has begun", begun(sample.New()), 4 * time.Minute, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := sample.LookedAt(t, newJoint(DefaultJoint()), c.world)
			sample.Decide(t, p, c.world.At(time.Second))
			sample.Expect(t, sample.Decide(t, p, c.world.At(c.after)), c.want)
		})
	}
	t.Run("its pool would fall below its minimum", func(t *testing.T) {
		w := waiting(sample.New())
		w.Pools[0].Min = 2
		p := sample.LookedAt(t, newJoint(DefaultJoint()), w)
		sample.Decide(t, p, w.At(time.Second))
		sample.Expect(t, sample.Decide(t, p, w.At(4*time.Minute)), nil)
	})
}
