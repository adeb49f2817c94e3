package upstream_test

import (
	"fmt"
	"net/http"
)

// life is that of a process which dies at a moment: the n-th time that it asks the cluster
// something, or that it writes something down.
type life struct {
	dies  moment
	count map[deed]int
}

// deed is what a process can die at.
type deed string

// The deeds, and the sides of them.
const (
	request deed = "request"
	write   deed = "write"

	before side = "before" // nothing of it was done
	torn   side = "half"   // half of it was
	after  side = "after"  // it was done, and not answered
)

type side string

// moment is when a process dies; the zero moment is never.
type moment struct {
	deed deed
	side side
	n    int
}

func (m moment) String() string { return fmt.Sprintf("%s the %d. %s", m.side, m.n, m.deed) }

// death is what a process that dies unwinds with. No deed is done after it.
type death struct{}

// at counts a deed, and says whether the process dies at it.
func (l *life) at(d deed) bool {
	if l.count == nil {
		l.count = map[deed]int{}
	}
	l.count[d]++
	return l.dies.deed == d && l.dies.n == l.count[d]
}

// lives does something, and reports whether the process has lived through it.
func (l *life) lives(do func()) (lived bool) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case death{}:
			lived = false
		default:
			panic(r)
		}
	}()
	do()
	return true
}

// mortalWay is the way of such a process to the cluster.
type mortalWay struct {
	way  http.RoundTripper
	life *life
}

func (m mortalWay) RoundTrip(r *http.Request) (*http.Response, error) {
	dies := m.life.at(request)
	if dies && m.life.dies.side == before {
		panic(death{})
	}
	answer, err := m.way.RoundTrip(r)
	if dies {
		panic(death{})
	}
	return answer, err
}

// mortalFile is its file.
type mortalFile struct {
	*logFile
	life *life
}

func (m mortalFile) Append(data []byte) error {
	if m.life.at(write) {
		switch m.life.dies.side {
		case torn:
			_ = m.logFile.Append(data[:len(data)/2])
		case after:
			_ = m.logFile.Append(data)
		case before:
		}
		panic(death{})
	}
	return m.logFile.Append(data)
}
