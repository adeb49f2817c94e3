// Package packing finds the cheapest set of new machines that holds a set of pods beside the
// machines that are there, and says why each pod went where it did.
//
// It knows nothing of Kubernetes: pods that the same machines accept share a Class, and a bin
// or offer lists the classes that it refuses, each with the reason. The result depends on the
// problem's contents and never on their order.
//
// The goals, each only among what is best by those before it:
//
//  1. place as many items as possible, and with equal numbers the larger ones, by the sum of
//     their dominant shares of the largest machine;
//  2. pay the lowest rate in all for the machines bought;
//  3. buy the fewest machines;
//  4. take what comes first by name.
//
// Machines that are there cost nothing more, so goal 2 fills them first. Problems of a few
// items are solved exactly; for larger ones the result is the best of several constructions
// and a bounded search, and LowerBound says how far from the cheapest it can be at most.
package packing

import (
	"github.com/plimsoll/plimsoll/pricing"
)

// Problem is what is to be packed, and into what.
type Problem struct {
	Items  []Item
	Bins   []Bin
	Offers []Offer
	// Hosts is the room each host still has for new machines, by name. A host that is not
	// listed has none.
	Hosts map[string]pricing.Resources
	// Limits is how many more machines each pool may have, by name. A pool that is not listed
	// may have none.
	Limits map[string]int
	// Apart are pairs of classes of which no machine takes both, in either order. Of a class that
	// is a pair with itself a machine takes one item. What is on a bin already is among what it
	// refuses.
	Apart [][2]string
}

// Item is one pod to be placed. Items of one Class are accepted by the same machines; those
// with equal requests too are interchangeable, and cost no more time together than one.
type Item struct {
	Name     string // unique in the problem
	Class    string
	Requests pricing.Resources
	Extra    pricing.Amounts // what it asks for besides
	More     int             // how many more pods it is than one: each takes a slot
	// the bin that it was meant for before: it goes there first, if that takes it
	Bin string
}

// Bin is a node that is there, or will be: its room is paid for. Free may be negative, as on
// a node that is overcommitted; it then takes items that ask for none of what it lacks.
type Bin struct {
	Name    string // unique in the problem
	Free    pricing.Resources
	Extra   pricing.Amounts // what is free besides
	Slots   int             // how many more pods it takes
	Refuses Refusals
}

// Offer is a machine that can be bought on one host, any number of times within the limits.
// It takes Shape's resources from its host's room and one from its pool's limit.
type Offer struct {
	Pool    string
	Shape   pricing.Shape
	Host    string
	Rate    pricing.Rate
	Free    pricing.Resources // what the machine's pods may use
	Extra   pricing.Amounts   // what they may use besides
	Slots   int               // how many pods it takes; none if 0
	Refuses Refusals
}

// Refusals are the classes of items that a machine does not take, each with the reason.
type Refusals map[string]string

// Purchase is one machine to buy, and what goes into it.
type Purchase struct {
	Offer Offer
	Items []string // by name
}

// Placement is where an item went and why, or why it went nowhere.
type Placement struct {
	Item string
	// Bin is the existing bin, or "" when the item went into Purchases[Purchase] or nowhere.
	Bin      string
	Purchase int // index into Result.Purchases, or -1
	Why      Why
	Text     string
}

// Why is the code of a placement.
type Why string

// Why an item went where it did. For an item that went nowhere, the code says what would have to
// change before anything else: the class, the size, what is asked for besides, the limit, the room.
const (
	FitsExisting Why = "FitsExisting" // onto a machine that is paid for
	// CheapestOffer: into a machine that was bought for it, and perhaps for others.
	CheapestOffer Why = "CheapestOffer"
	// NoOffer: not placed, because nothing is on offer and no bin has room.
	NoOffer Why = "NoOffer"
	// Refused: not placed, because every offer, and every bin with room, refuses its class.
	Refused Why = "Refused"
	// TooBig: not placed, because it is larger than any offer that takes its class.
	TooBig Why = "TooBig"
	// NoResource: not placed, because offers with enough CPU and memory lack another resource.
	NoResource Why = "InsufficientResource"
	// PoolFull: not placed, because every pool with a machine for it is at its limit.
	PoolFull Why = "PoolFull"
	// NoRoom: not placed, because the hosts of the pools with a machine for it have no room.
	NoRoom Why = "NoRoom"
)

// Result is the cheapest set of purchases found.
type Result struct {
	Purchases  []Purchase
	Placements []Placement // one for each item, by item name
	Rate       pricing.Rate
	// LowerBound is a rate below which no set of purchases, beside the same bins, holds the
	// same items.
	LowerBound pricing.Rate
}

// DefaultEffort is the effort that Solve puts in. With ten times as much, rates come down by
// less than one percent in most problems.
const DefaultEffort = 5000

// Solve returns the cheapest packing found with DefaultEffort.
func Solve(p Problem) Result { return SolveWithin(p, DefaultEffort) }

// SolveWithin returns the cheapest packing found with a bounded number of moves of the search
// that follows the first constructions. With an effort of 0 there is no search. The effort is
// counted and never timed, so that the same problem always has the same result.
func SolveWithin(p Problem, effort int) Result {
	m := newModel(p)
	s := newSearch(m, effort)
	s.run()
	return m.result(s.best, s.bound)
}
