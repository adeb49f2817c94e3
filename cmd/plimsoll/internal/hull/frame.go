// Package hull draws a fleet as ships: each host is a hull, the machines on it are its cargo,
// stacked from the keel up, and what their pods ask for is the water in them. A mark on the
// hull, ⊖, is the line up to which it may be loaded: what the host may promise to machines.
//
// A picture is a function of a Frame and the size of the screen. No meaning is in the colours
// alone: all that is red also says so.
package hull

import (
	"time"

	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/demo"
)

// Frame is what a picture shows.
type Frame struct {
	Title string
	Time  time.Time
	Pace  string // how fast time goes by
	Day   Day

	Services []demo.Service
	Pending  int // pods that no node has room for

	Unit               string
	Rate, Static       pricing.Rate
	Spent, StaticSpent pricing.Micros
	Dear               bool // prices are higher than usual

	Hosts []loop.HostLoad

	News   []News // the latest last
	Keys   string // what the keys do
	Notice string // takes the place of Keys while there is something to answer
}

// Day is the strip of load on top: the requests a second of each minute so far, out of a whole
// of so many minutes, on a scale that ends at Top.
type Day struct {
	Start   time.Time
	Rates   []float64
	Minutes int
	Top     float64
}

// News is a line about something that happened.
type News struct {
	At    time.Time
	Mark  string // a sign for what kind of thing it was
	Style Style
	Text  string
	Why   string
}
