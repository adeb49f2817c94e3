package placement

import (
	"fmt"
	"maps"
	"slices"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Pool is what of a pool decides where its machines go.
type Pool struct {
	Name     string
	Template Template
	Clone    CloneMode
	Storage  string // of full clones; empty is the template's
	Discs    string // the storage of first-boot discs; empty if there are none
	Bridge   string
	// Failing are the hosts that rest since the pool's machines failed there, with what is said of
	// each. They take machines where no other host does.
	Failing map[string]nodescaler.Reason
	Rules   // its hosts are those that have a template
}

// Template is what machines are cloned from: one VMID, or one on every host, as local storage
// makes necessary.
type Template struct {
	VMID   int            `json:"vmid,omitempty"`
	ByHost map[string]int `json:"byHost,omitempty"`
}

// On returns the template for machines on a host, or 0 without one.
func (t Template) On(host string) int {
	if t.VMID != 0 {
		return t.VMID
	}
	return t.ByHost[host]
}

// IDs returns the templates, smallest first.
func (t Template) IDs() []int {
	var ids []int
	if t.VMID != 0 {
		ids = append(ids, t.VMID)
	}
	ids = slices.AppendSeq(ids, maps.Values(t.ByHost))
	slices.Sort(ids)
	return slices.Compact(ids)
}

// CloneMode is whether a clone shares its template's disk.
type CloneMode string

// The ways to clone.
const (
	Linked CloneMode = "linked" // made in a moment; keeps the template from being removed
	Full   CloneMode = "full"   // a copy of its own
)

// VMIDs is a range of VMIDs, both ends in it.
type VMIDs struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Len is how many VMIDs there are.
func (v VMIDs) Len() int { return v.Last - v.First + 1 }

// Holds reports whether the VMID is one of them.
func (v VMIDs) Holds(id int) bool { return v.First <= id && id <= v.Last }

// String prints the range.
func (v VMIDs) String() string { return fmt.Sprintf("%d-%d", v.First, v.Last) }

// Free is the first of the VMIDs that is not used, from one place in the range on and around; 0 if
// all are.
func (v VMIDs) Free(from int, used func(id int) bool) int {
	for n := range v.Len() {
		if id := v.First + (from+n)%v.Len(); !used(id) {
			return id
		}
	}
	return 0
}

// Rules is which hosts may carry machines, and how far they are filled.
type Rules struct {
	// Hosts may carry machines; none named means all.
	Hosts []string `json:"hosts,omitempty"`
	// Maintenance names hosts that keep what they have and get nothing new.
	Maintenance []string `json:"maintenance,omitempty"`
	// Spread is empty for SpreadPrefer.
	Spread Spread `json:"spread,omitempty"`
	// MaxPerHost is how many of the pool's machines a host may carry; 0 is no limit.
	MaxPerHost int `json:"maxPerHost,omitempty"`
	// MemoryReserve is what every host keeps for itself.
	MemoryReserve pricing.Bytes `json:"memoryReserve,omitempty"`
	// MemoryRatio and CPURatio are how often the rest may be promised; 0 is once.
	MemoryRatio float64 `json:"memoryRatio,omitempty" strict:"nonzero"`
	CPURatio    float64 `json:"cpuRatio,omitempty" strict:"nonzero"`
	// IgnoreStopped leaves the VMs that do not run out of what a host has promised. They may be
	// started at any time, so this is for those who know that they will not be.
	IgnoreStopped bool `json:"ignoreStopped,omitempty"`
	// StorageReserve is what must stay free on the storage that a clone is made on.
	StorageReserve pricing.Bytes `json:"storageReserve,omitempty"`
}

// Spread is whether machines are kept apart.
type Spread string

// The ways to spread.
const (
	SpreadPrefer Spread = "prefer" // the host with fewest of the pool's machines comes first
	SpreadNone   Spread = "none"   // the cheapest host comes first, then the roomiest
)
