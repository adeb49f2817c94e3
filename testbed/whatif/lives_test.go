package whatif

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Times are fitted to what was seen, and say from what. The rest is assumed, and said to be.
func TestTimesSayFromWhatTheyAreFitted(t *testing.T) {
	// The first is what a guest took that QEMU emulated (docs/emulator.md); of many, the extremes
	// are dropped.
	l := lives{clones: []time.Duration{6 * time.Second}, pods: []time.Duration{65 * time.Second}}
	for i := range 40 {
		l.boots = append(l.boots, time.Duration(300+i)*time.Second)
	}
	d, fitted, assumed := l.delays()
	want := usual
	want.Clone, want.Boot, want.PodStart = one(6), timing.Range{Min: 302 * time.Second, Max: 337 * time.Second}, one(65)
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !slices.Equal(fitted, []string{"1 clones (6s to 6s)", "40 boots (5m2s to 5m37s)", "1 starts of pods (1m5s to 1m5s)"}) ||
		!slices.Equal(assumed, []string{"starts of spares", "deletions"}) {
		t.Errorf("fitted to %q, assumed %q", fitted, assumed)
	}
	if _, fitted, assumed := (&lives{}).delays(); fitted != nil || len(assumed) != 5 {
		t.Errorf("without a machine, fitted to %q, assumed %q", fitted, assumed)
	}
}

func one(s int) timing.Range { return seconds(s, s) }
