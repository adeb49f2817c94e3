package pve

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// memoryFile is a LogFile that fails and tears as it is told.
type memoryFile struct {
	data []byte
	tear func(n int) (keep int, err error) // asked before n bytes are added
}

func (f *memoryFile) Read() ([]byte, error) { return f.data, nil }

func (f *memoryFile) Append(data []byte) error {
	keep, err := len(data), error(nil)
	if f.tear != nil {
		keep, err = f.tear(len(data))
	}
	f.data = append(f.data, data[:keep]...)
	return err
}

func (f *memoryFile) Replace(data []byte) error { f.data = data; return nil }

func loadLog(t *testing.T, f LogFile) []Intent {
	t.Helper()
	l, err := OpenIntentLog(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := l.Load()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestLogKeepsWhatMemoryKeeps(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		file := &memoryFile{}
		log, err := OpenIntentLog(file)
		if err != nil {
			t.Fatal(err)
		}
		var twin MemoryIntents
		for n := range 2000 {
			order := fmt.Sprintf("o%d", rng.IntN(12))
			if rng.IntN(3) == 0 {
				err = errors.Join(twin.Remove(order), log.Remove(order))
			} else {
				i := Intent{Order: order, VMID: n, Making: Making{Spent: []int{n}}}
				err = errors.Join(twin.Put(i), log.Put(i))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want, _ := twin.Load()
		if diff := cmp.Diff(want, loadLog(t, file)); diff != "" {
			t.Fatalf("seed %d: (-memory +log)\n%s", seed, diff)
		}
		if lines := strings.Count(string(file.data), "\n"); lines > slackLines+2*12+1 {
			t.Errorf("seed %d: the log has %d lines for at most 12 intents", seed, lines)
		}
	}
}

func TestTornLastLineIsLeftOutAndWrittenOver(t *testing.T) {
	for cut := range 40 {
		file := &memoryFile{}
		log, _ := OpenIntentLog(file)
		if err := log.Put(Intent{Order: "kept"}); err != nil {
			t.Fatal(err)
		}
		file.tear = func(n int) (int, error) { return min(cut, n-1), errors.New("disk full") }
		if err := log.Put(Intent{Order: "torn"}); err == nil {
			t.Fatal("a failed write was taken for kept")
		}
		file.tear = nil
		// Both who goes on and who starts again write a whole line next.
		again := &memoryFile{data: append([]byte(nil), file.data...)}
		reopened, err := OpenIntentLog(again)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		for _, l := range []struct {
			*IntentLog
			file *memoryFile
		}{{log, file}, {reopened, again}} {
			if err := l.Put(Intent{Order: "next"}); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range loadLog(t, l.file) {
				got = append(got, i.Order)
			}
			if diff := cmp.Diff([]string{"kept", "next"}, got); diff != "" {
				t.Errorf("cut at %d:\n%s", cut, diff)
			}
		}
	}
}

func TestBrokenLineInTheMiddleIsAnError(t *testing.T) {
	for _, text := range []string{"{\"put\":{\"order\":\"a\"}}\nnonsense\n{\"remove\":\"a\"}\n", "{}\n"} {
		if _, err := OpenIntentLog(&memoryFile{data: []byte(text)}); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: got %v, want an error that names the line", text, err)
		}
	}
}

func TestReasonsAreKeptInBrief(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"short":                   {"3 pods wait", "3 pods wait"},
		"just short enough":       {strings.Repeat("x", maxWhy), strings.Repeat("x", maxWhy)},
		"too long":                {strings.Repeat("x", maxWhy+1), strings.Repeat("x", maxWhy-3) + "…"},
		"cut beside a long rune":  {strings.Repeat("x", maxWhy-5) + "€€€", strings.Repeat("x", maxWhy-5) + "…"},
		"nothing but long runes":  {strings.Repeat("€", maxWhy), strings.Repeat("€", (maxWhy-3)/3) + "…"},
		"ends with the last rune": {strings.Repeat("x", maxWhy-3) + "€", strings.Repeat("x", maxWhy-3) + "€"},
	} {
		if got := brief(c.text); got != c.want || len(got) > maxWhy {
			t.Errorf("%s: got %q of %d bytes, want %q", name, got, len(got), c.want)
		}
	}
}

// An intent of an older Plimsoll's is as long as its reasons were; it shrinks when it is next
// written.
func TestReasonsThatWereKeptAtLengthAreCut(t *testing.T) {
	w := newWorld(t, plan{hosts: 2, seed: 3}).begin()
	w.run(time.Minute)
	name := w.mustOrder("")
	kept, err := w.intents.Load()
	if err != nil {
		t.Fatal(err)
	}
	kept[0].Why = strings.Repeat("x", 1000)
	if err := w.intents.Put(kept[0]); err != nil {
		t.Fatal(err)
	}
	w.begin()
	w.run(time.Second)
	w.until("it has joined", 10*time.Minute, func() bool { return w.phase(name) == nodescaler.Joined })
	if kept, err = w.intents.Load(); err != nil || len(kept[0].Why) > maxWhy {
		t.Errorf("%v, the reasons are of %d bytes", err, len(kept[0].Why))
	}
}
