package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/podscaler/capacity"
)

// Scaler sets replicas, minute by minute. Its loads are in requests a second.
type Scaler interface {
	// Next has seen the period that ended and returns the pods of the next one. It is called
	// once a period, and what it returns is kept within the setting's bounds.
	Next(p capacity.Period) (pods int)
}

// Warmed is a Scaler that learns from what was before it is in charge, oldest first.
type Warmed interface{ Warm(arrivals []float64) }

// Explains is a Scaler that can say who of several decided last, and why.
type Explains interface{ Active() (leader, why string) }

// Foresees is a Scaler that gets the arrivals of the next period before it sets the pods for
// them. No one can be; it is what others are measured by.
type Foresees interface{ Foresee(arrivals float64) }

// Sized is a Scaler that knows the bytes of memory it holds.
type Sized interface {
	Size() (bytes int, known bool)
}

// Kind is a way to scale.
type Kind struct {
	Name  string // in lower case, as people choose it
	Title string // a sentence that may follow the name
	Knob  Knob
	New   func(Setting) (Scaler, error)
}

// kinds are all of them by name. Each one's file adds its own from init, and nothing changes
// them after that.
var kinds = map[string]Kind{}

func register(k Kind) {
	if _, twice := kinds[k.Name]; twice {
		panic("kind of scaler " + k.Name + " is registered twice")
	}
	kinds[k.Name] = k
}

// Kinds returns all ways to scale, sorted by name.
func Kinds() []Kind {
	all := make([]Kind, 0, len(kinds))
	for _, k := range kinds {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b Kind) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Find returns the kind of that name. One that this world cannot play is refused with the reason.
func Find(name string) (Kind, error) {
	key := strings.ToLower(name)
	if k, ok := kinds[key]; ok {
		return k, nil
	}
	if why, ok := refused[key]; ok {
		return Kind{}, fmt.Errorf("scaler: must be one that goes by arrivals or use, was %q, which %s", name, why)
	}
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.Name)
	}
	return Kind{}, fmt.Errorf("scaler: must be one of %s, was %q", strings.Join(names, ", "), name)
}

// refused are scalers that people may ask for and this world cannot play, and why.
var refused = map[string]string{
	"joint":   "learns from response times and fills paid machines, and a replay has neither: plimsoll testbed run policies --trace FILE has",
	"slocost": "goes by response times, and a replay has none: plimsoll testbed run policies --trace FILE has",
}
