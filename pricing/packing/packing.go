// Package packing finds the cheapest set of new machines that holds a set of pods beside the
// machines that are there, and says why each pod went where it did.
//
// It knows nothing of Kubernetes: pods that the same machines accept share a Class, and a bin
// or offer lists the classes that it refuses, each with the reason. The result depends on the
// problem's contents and never on their order.
package packing

import "github.com/plimsoll/plimsoll/pricing"

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
}

// Item is a pod to be placed, or Count like ones.
type Item struct {
	Name     string
	Class    string
	Requests pricing.Resources
}

// Bin is a node that is there, or will be: its room is paid for.
type Bin struct {
	Name    string
	Free    pricing.Resources
	Slots   int // how many more pods it takes
	Refuses Refusals
}

// Offer is a machine that can be bought on one host, any number of times within the limits.
type Offer struct {
	Pool    string
	Shape   pricing.Shape
	Host    string
	Rate    pricing.Rate
	Free    pricing.Resources // what the machine's pods may use
	Slots   int
	Refuses Refusals
}

// Refusals are the classes of items that a machine does not take, each with the reason.
type Refusals map[string]string

// Purchase is one machine to buy, and what goes into it.
type Purchase struct {
	Offer Offer
	Items []string
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

// Why an item went where it did.
const (
	FitsExisting  Why = "FitsExisting"  // onto a machine that is paid for
	CheapestOffer Why = "CheapestOffer" // into a machine bought for it and others
	Refused       Why = "Refused"       // nowhere: every machine refuses its class
	TooBig        Why = "TooBig"        // nowhere: larger than any machine on offer
	NoRoom        Why = "NoRoom"        // nowhere: no host has room for another machine
	PoolFull      Why = "PoolFull"      // nowhere: the pools' limits are reached
	NoOffer       Why = "NoOffer"       // nowhere: nothing is on offer
)

// Result is the cheapest set of purchases found.
type Result struct {
	Purchases  []Purchase
	Placements []Placement // by item name
	Rate       pricing.Rate
	// LowerBound is a rate below which no set of purchases holds the same items.
	LowerBound pricing.Rate
}
