package pve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzMark reads notes that anyone who may edit a VM wrote: a mark that is found is printed and
// found again.
func FuzzMark(f *testing.F) {
	f.Add(mark{Owner: "home", Order: "o-1", Pool: "w", Shape: "m", VMID: 5000, Created: time.Unix(1, 0).UTC(), Stage: stageReady}.String())
	f.Add("plimsoll:v1 owner=a order=b pool=c vmid=1 created=2026-01-01T00:00:00Z stage=ready\n\nplimsoll:v1 owner=a")
	f.Add("plimsoll:v1 vmid=-9223372036854775808")
	f.Fuzz(func(t *testing.T, notes string) {
		m, ok := readMark(notes)
		if !ok {
			return
		}
		again, ok := readMark(m.String())
		if d := cmp.Diff(m, again); !ok || d != "" {
			t.Errorf("%q is read as %+v, and then as %+v (%v)", notes, m, again, ok)
		}
	})
}
