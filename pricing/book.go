package pricing

import "time"

// Book says what a machine costs per hour: by vCPU and GB, with what differs by shape, by host
// and by time of day.
type Book struct {
	// Unit names the money, for display: EUR, units.
	Unit string
	// PerVCPU and PerGB are what an hour of one vCPU, and of 10⁹ bytes of memory, costs.
	PerVCPU, PerGB Micros
}

// DefaultBook charges one unit per vCPU-hour and one per GB-hour.
func DefaultBook() *Book { return &Book{Unit: "units", PerVCPU: Unit, PerGB: Unit} }

// Rate is what a machine of shape s on the named host costs per hour at the given time.
func (b *Book) Rate(s Shape, host string, at time.Time) Rate {
	return Rate(int64(b.PerVCPU)*int64(s.CPU)) + Rate(int64(b.PerGB)*int64(s.Memory)/1e6)
}
