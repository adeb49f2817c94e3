package intents

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// memoryFile is a File that fails and tears as a test says.
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

func loadLog(t *testing.T, f File) []Intent {
	t.Helper()
	l := must.Get(OpenLog(f))(t)
	all := must.Get(l.Load())(t)
	return all
}

func TestLogKeepsWhatMemoryKeeps(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		file := &memoryFile{}
		log, err := OpenLog(file)
		if err != nil {
			t.Fatal(err)
		}
		var twin Memory
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
		log, _ := OpenLog(file)
		must.Do(t, log.Put(Intent{Order: "kept"}))
		file.tear = func(n int) (int, error) { return min(cut, n-1), errors.New("disk full") }
		if err := log.Put(Intent{Order: "torn"}); err == nil {
			t.Fatal("a failed write was taken for kept")
		}
		file.tear = nil
		// Both who goes on and who starts again write a whole line next.
		again := &memoryFile{data: append([]byte(nil), file.data...)}
		reopened, err := OpenLog(again)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		for _, l := range []struct {
			*Log
			file *memoryFile
		}{{log, file}, {reopened, again}} {
			must.Do(t, l.Put(Intent{Order: "next"}))
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
		if _, err := OpenLog(&memoryFile{data: []byte(text)}); err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: got %v, want an error that names the line", text, err)
		}
	}
}

// FuzzLog reads a state file that was torn or edited: it is refused, or what it holds is kept.
func FuzzLog(f *testing.F) {
	f.Add([]byte(`{"put":{"order":"a","pool":"w","name":"w-a","vmid":5000}}` + "\n" + `{"remove":"a"}` + "\n"))
	f.Add([]byte(`{"put":{"order":"a"}}` + "\n" + `{"put":{"ord`))
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file := &memoryFile{data: data}
		l, err := OpenLog(file)
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
