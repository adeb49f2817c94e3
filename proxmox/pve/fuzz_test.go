package pve

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// FuzzMark reads notes that anyone who may edit a VM wrote: a mark that is found is printed and found again.
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

// FuzzIntentLog reads a state file that was torn or edited: it is refused, or what it holds is kept.
func FuzzIntentLog(f *testing.F) {
	f.Add([]byte(`{"put":{"order":"a","pool":"w","name":"w-a","vmid":5000}}` + "\n" + `{"remove":"a"}` + "\n"))
	f.Add([]byte(`{"put":{"order":"a"}}` + "\n" + `{"put":{"ord`))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &memoryFile{data: data}
		l, err := OpenIntentLog(file)
		if err != nil {
			return
		}
		before, err := l.Load()
		if err == nil {
			err = l.Put(Intent{Order: "new"})
		}
		if err == nil {
			err = l.Remove("new")
		}
		if err != nil {
			t.Fatal(err)
		}
		for i, kept := range before {
			if kept.Order == "new" {
				before = append(before[:i:i], before[i+1:]...)
				break
			}
		}
		if d := cmp.Diff(before, loadLog(t, file)); d != "" && len(before) > 0 {
			t.Error(d)
		}
	})
}
