package pve

import (
	"fmt"
	"testing"
	"time"
)

// step is how far a process of the model is with its one machine.
type modelStep int8

const (
	modelCloned modelStep = iota
	modelReady            // its notes say ready
	modelListed           // and it has begun to count: what it has seen so far is in seen
	modelAdmitted
	modelRuns
	modelGone // removed, never started
)

const modelMost = 3

// modelState is all that is on Proxmox VE and in the processes. It is a value, so that states can
// be distinguished.
type modelState struct {
	at   [modelMost]modelStep
	dead [modelMost]bool
	// next is whose notes are read next in a count, and seen what was read: 0 is nothing, 1 ready,
	// 2 runs.
	next [modelMost]int8
	seen [modelMost][modelMost]int8
}

func (s *modelState) shows(i int) int8 {
	switch s.at[i] {
	case modelReady, modelListed, modelAdmitted:
		return 1
	case modelRuns:
		return 2
	case modelCloned, modelGone:
	}
	return 0
}

func (s *modelState) running() (n int) {
	for _, a := range s.at {
		if a == modelRuns {
			n++
		}
	}
	return n
}

// after are the states that one process comes to with its next call. The notes of the machines are
// read one by one, so that others go on between.
func (s modelState) after(i, n, most int, created [modelMost]int) (next []modelState) {
	switch t := s; s.at[i] {
	case modelCloned:
		t.at[i] = modelReady
		next = append(next, t)
	case modelReady:
		t.at[i], t.next[i], t.seen[i] = modelListed, 0, [modelMost]int8{}
		next = append(next, t)
	case modelListed:
		if int(s.next[i]) < n {
			j := int(s.next[i])
			t.next[i]++
			t.seen[i][j] = s.shows(j)
			next = append(next, t)
			if s.shows(j) == 2 { // that it runs may not be seen yet
				t.seen[i][j] = 1
				next = append(next, t)
			}
			break
		}
		entryOf := func(j int) entry {
			return entry{vmid: 100 + j, created: time.Unix(int64(created[j]), 0), order: fmt.Sprint(j), runs: j != i && s.seen[i][j] == 2}
		}
		var others []entry
		for j := range n {
			if j != i && s.seen[i][j] > 0 {
				others = append(others, entryOf(j))
			}
		}
		t.at[i] = map[admission]modelStep{admit: modelAdmitted, postpone: modelReady, cancel: modelGone}[admits(most, entryOf(i), others)]
		t.next[i], t.seen[i] = 0, [modelMost]int8{}
		next = append(next, t)
	case modelAdmitted:
		t.at[i] = modelRuns
		next = append(next, t)
	case modelRuns, modelGone:
	}
	return next
}

// Every interleaving of two and three processes that each make a machine, whoever's clock is ahead
// and whoever dies when: no more machines run than may. While no process dies, as many run in the
// end as may, and none waits for ever.
func TestEveryInterleavingOfStartsKeepsTheMaximum(t *testing.T) {
	orders := [][modelMost]int{{0, 1, 2}, {2, 1, 0}, {1, 1, 1}, {1, 2, 0}}
	for n := 2; n <= modelMost; n++ {
		for most := 1; most <= n; most++ {
			for _, created := range orders {
				for _, mortal := range []bool{false, true} {
					explore(t, n, most, created, mortal)
				}
			}
		}
	}
}

func explore(t *testing.T, n, most int, created [modelMost]int, mortal bool) {
	t.Helper()
	seen, todo := map[modelState]bool{}, []modelState{{}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[s] {
			continue
		}
		seen[s] = true
		if s.running() > most {
			t.Fatalf("%d processes, created %v: %d run, of at most %d: %+v", n, created, s.running(), most, s)
		}
		ended := true
		for i := range n {
			if s.dead[i] {
				continue
			}
			next := s.after(i, n, most, created)
			ended = ended && len(next) == 0
			todo = append(todo, next...)
			if mortal && len(next) > 0 {
				dead := s
				dead.dead[i] = true
				todo = append(todo, dead)
			}
		}
		if ended && !mortal && s.running() != min(n, most) {
			t.Fatalf("%d processes, created %v: in the end %d run, of at most %d: %+v", n, created, s.running(), most, s)
		}
	}
	if !mortal {
		alwaysEnds(t, seen, n, most, created)
	}
}

// alwaysEnds holds that from every state the end can be reached: no process waits for ever.
func alwaysEnds(t *testing.T, all map[modelState]bool, n, most int, created [modelMost]int) {
	t.Helper()
	before := map[modelState][]modelState{}
	var good []modelState
	for s := range all {
		ended := true
		for i := range n {
			for _, next := range s.after(i, n, most, created) {
				ended = false
				before[next] = append(before[next], s)
			}
		}
		if ended {
			good = append(good, s)
		}
	}
	reaches := map[modelState]bool{}
	for len(good) > 0 {
		s := good[len(good)-1]
		good = good[:len(good)-1]
		if !reaches[s] {
			reaches[s] = true
			good = append(good, before[s]...)
		}
	}
	if len(reaches) != len(all) {
		t.Fatalf("%d processes, at most %d, created %v: from %d of %d states there is no end", n, most, created, len(all)-len(reaches), len(all))
	}
}

// Two machines of one order, taken by two processes in the same moment, never both run, and one
// stays.
func TestOfTwoMachinesOfOneOrderOneGoes(t *testing.T) {
	a := entry{vmid: 100, created: time.Unix(1, 0), order: "x"}
	b := entry{vmid: 101, created: time.Unix(1, 0), order: "x"}
	if got := admits(9, a, []entry{b}); got != postpone {
		t.Errorf("the first %ss", got)
	}
	if got := admits(9, b, []entry{a}); got != cancel {
		t.Errorf("the second %ss", got)
	}
	b.runs = true
	if got := admits(9, a, []entry{b}); got != cancel {
		t.Errorf("beside one that runs, the first %ss", got)
	}
	b.unread = true
	if got := admits(1, a, []entry{b}); got != postpone {
		t.Errorf("beside one that cannot be read, it %ss", got)
	}
}
