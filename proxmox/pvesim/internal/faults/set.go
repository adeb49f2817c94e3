package faults

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// Set is the faults that were put into a cluster, in that order. It says which strike, and does
// nothing.
type Set struct {
	Seed uint64 // of the streams of chance
	All  []*Injected
	Put  int // that were put in so far, those among them that have been healed
}

// Injected is a fault that was put in, and how far it has come.
type Injected struct {
	Fault
	Number int // of all that were put in
	Since  time.Time
	On     bool // its time has come
	Seen   int  // events of its kind
	Struck int  // of these, those that it spoiled

	seed uint64
	path *regexp.Regexp // that calls must match
}

// Add puts a fault in. It is not on.
func (s *Set) Add(f Fault, now time.Time) *Injected {
	s.Put++
	return s.Restore(&Injected{Fault: f, Number: s.Put, Since: now})
}

// Restore puts a fault in as it was.
func (s *Set) Restore(f *Injected) *Injected {
	f.seed, f.path = s.Seed, pathPattern(f.Arg("PATH"))
	s.All = append(s.All, f)
	return f
}

// pathPattern matches paths in which a star matches one part, and three dots anything.
func pathPattern(path string) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.ReplaceAll(path, "...", "…"))
	return regexp.MustCompile("^" + strings.NewReplacer("…", ".*", `\*`, "[^/]*").Replace(pattern) + "$")
}

// Fits reports whether a fault is about a value, or does not care.
func (f *Injected) Fits(key, value string) bool {
	have := cmp.Or(f.Arg(key), f.Opt(key))
	return have == "" || have == value
}

// FitsCall reports whether a fault is about a call.
func (f *Injected) FitsCall(method, path string) bool {
	of := f.Arg("METHOD")
	return f.Name() == "unauthorized" || (of == "ANY" || of == method) && f.path.MatchString(path)
}

// FitsTask reports whether a fault is about tasks of a kind.
func (f *Injected) FitsTask(kind string) bool {
	of, isTask := Tasks[f.Arg("TASK")]
	return isTask && (of == "" || of == kind)
}

// Active is the first fault of a name that is on and about these values; nil without
// one.
func (s *Set) Active(name string, about ...string) *Injected {
	for _, f := range s.All {
		if !f.On || f.Name() != name {
			continue
		}
		fits := true
		for i := 0; i+1 < len(about); i += 2 {
			fits = fits && f.Fits(about[i], about[i+1])
		}
		if fits {
			return f
		}
	}
	return nil
}

// draw is the stream of chance for a fault's nth event. It does not depend on what else is drawn.
func (f *Injected) draw(n int) *rand.Rand {
	return timing.Stream(f.seed, fmt.Sprintf("fault %d, event %d", f.Number, n))
}

// Lucky draws whether the nth event is one that the fault spoils.
func (f *Injected) Lucky(n int) bool {
	p, err := strconv.ParseFloat(f.Opt("p"), 64)
	return err != nil || f.draw(n).Float64() < p
}

// Delay is how long a fault that makes things slow takes at its last event.
func (f *Injected) Delay() time.Duration {
	if by := f.Duration("by"); by > 0 {
		return by
	}
	p50, p99 := f.Duration("p50"), f.Duration("p99")
	if p99 == 0 {
		return p50
	}
	const atP99 = 2.3263 // standard deviations above the middle
	rng := f.draw(f.Seen)
	rng.Float64() // which was for p
	sigma := math.Log(float64(p99)/float64(p50)) / atP99
	return time.Duration(float64(p50) * math.Exp(sigma*rng.NormFloat64()))
}

// Event is something that faults may spoil.
type Event struct {
	Of   string
	Host string
	VM   string
	Who  string // user, or user!token
	Fits func(f *Injected) bool
}

// Strike counts an event, and returns the faults that spoil it.
func (s *Set) Strike(e Event) []*Injected {
	var all []*Injected
	for _, f := range s.All {
		if !f.On || f.Of() != e.Of || !f.Fits("on", e.Host) || !f.Fits("vm", e.VM) || !isWho(f.Opt("user"), e.Who) || !e.Fits(f) {
			continue
		}
		f.Seen++
		nth, every, times := f.Count("nth"), f.Count("every"), f.Count("times")
		if nth > 0 && f.Seen != nth || every > 0 && f.Seen%every != 0 || times > 0 && f.Struck >= times || !f.Lucky(f.Seen) {
			continue
		}
		f.Struck++
		all = append(all, f)
	}
	return all
}

// isWho reports whether a caller is meant: a user means all of their tokens.
func isWho(meant, who string) bool {
	user, _, _ := strings.Cut(who, "!")
	return meant == "" || meant == who || meant == user
}

// Revoked are the privileges that have been taken from a caller. The administrator loses one only
// by name.
func (s *Set) Revoked(who *access.Identity, path string) access.Privileges {
	var all access.Privileges
	for _, f := range s.All {
		from, below := f.Opt("from"), f.Opt("path")
		if f.On && f.Name() == "revoke" && isWho(from, who.String()) && (from != "" || who.User != access.RootUser) &&
			(below == "" || path == below || strings.HasPrefix(path, strings.TrimSuffix(below, "/")+"/")) {
			all |= access.PrivilegeBits[f.Arg("PRIVILEGE")]
		}
	}
	return all
}

// Expired reports whether a token has expired before its time.
func (s *Set) Expired(who *access.Identity) bool {
	return s.Active("expire token", "WHO", who.String()) != nil
}
