package pricing

import (
	"math/big"
	"math/bits"
	"time"
)

// Book says what a machine costs per hour: by vCPU and GB, with what differs by shape, by host
// and by time of day. It is plain data, and every method but Validate takes a book that has
// passed it; change no book that others may be reading.
//
// The most particular price counts, for each of vCPU and memory on its own: the shape's, then
// the host's, then that of the tariff in force, then the book's. The strict tags are rules on
// which keys may be absent, kept by whoever reads a book from a file; Validate keeps the rules
// on values.
type Book struct {
	// Unit names the money, for display: EUR, units.
	Unit string `json:"currency" strict:"required"`
	// PerVCPU, PerGB and PerGiB are what an hour of one vCPU, of 10⁹ bytes and of 2³⁰ bytes of
	// memory costs. Memory is priced by GB or by GiB, not by both.
	PerVCPU Micros `json:"pricePerVCPUHour,omitempty" strict:"oneof=vcpu"`
	PerGB   Micros `json:"pricePerGBHour,omitempty" strict:"oneof=memory"`
	PerGiB  Micros `json:"pricePerGiBHour,omitempty" strict:"oneof=memory"`
	// Derived works out the three from power and hardware, in their place.
	Derived *Derived `json:"derived,omitempty" strict:"oneof=vcpu,oneof=memory"`
	// PerDiskGB is what an hour of 10⁹ bytes of disk costs a machine that is stopped. While one
	// runs, its disk is in the prices of its vCPUs and memory.
	PerDiskGB Micros `json:"pricePerDiskGBHour,omitempty"`
	// PerMachine is what an hour of each machine that runs costs besides its vCPUs and memory: its
	// address, its license and backup, what its kernel and agents take, its share of the time to
	// clone it. A shape with one price for everything has it in that.
	PerMachine Micros `json:"pricePerMachineHour,omitempty"`
	// PerHost is what each host costs for as long as it carries at least one of our machines,
	// however many: what could be saved by giving back the last of them. Costs that run on
	// regardless do not belong here, for no decision avoids them.
	PerHost Micros                 `json:"pricePerHostHour,omitempty"`
	Hosts   map[string]HostPrices  `json:"hosts,omitempty"`
	Shapes  map[string]ShapePrices `json:"shapes,omitempty"`
	// Zone is whose clock the tariffs go by; UTC if it is not set.
	Zone    Zone     `json:"timeZone,omitzero"`
	Tariffs []Tariff `json:"tariffs,omitempty"`
}

// Prices are prices of one's own; nil is to have none.
type Prices struct {
	PerVCPU *Micros `json:"pricePerVCPUHour,omitempty"`
	PerGB   *Micros `json:"pricePerGBHour,omitempty"`
	PerGiB  *Micros `json:"pricePerGiBHour,omitempty"`
}

// HostPrices is what differs on one host.
type HostPrices struct {
	Prices
	PerHost *Micros `json:"pricePerHostHour,omitempty"`
	Hardware
}

// ShapePrices is what differs for the shapes of one name: a price for the whole machine, or
// prices for its parts.
type ShapePrices struct {
	PerHour *Micros `json:"pricePerHour,omitempty"`
	Prices
}

// Placed is a machine of a shape on a host, there or ordered.
type Placed struct {
	Shape   Shape
	Host    string
	Stopped bool // kept, and not running
}

// DefaultBook charges one unit per vCPU-hour and one per GB-hour, and a two-hundredth of one per
// hour of a GB of disk that no running machine has: what block storage is to a vCPU where both are
// for hire.
func DefaultBook() *Book {
	return &Book{Unit: "units", PerVCPU: Unit, PerGB: Unit, PerDiskGB: Unit / 200}
}

// Rate is what a machine of shape s on the named host costs per hour at the given time, without
// the host's fixed part. The host's name may be empty when it does not matter or is not known.
func (b *Book) Rate(s Shape, host string, at time.Time) Rate {
	if r, ok := b.plainRate(s, host); ok {
		return r
	}
	return b.reckon(s, host, at).rate()
}

// RoomRate is what so much room costs per hour in machines that are paid for anyway: what Rate
// says, without what having a machine costs.
func (b *Book) RoomRate(r Resources, at time.Time) Rate {
	room := *b
	room.PerMachine = 0
	return room.Rate(Shape{CPU: r.CPU, Memory: r.Memory}, "", at)
}

// SpareRate is what a machine of shape s costs per hour while it is stopped: its disk. Its host's
// fixed part is counted beside it, since the host must be on for the machine to be started.
func (b *Book) SpareRate(s Shape) Rate {
	if b.PerDiskGB <= 0 || s.Disk <= 0 {
		return 0
	}
	per := new(big.Int).Mul(big.NewInt(int64(b.PerDiskGB)), big.NewInt(int64(s.Disk)))
	return Rate(divRound(per, big.NewInt(bytesPerRate)))
}

// rate is what a machine costs, running or stopped.
func (b *Book) rate(p Placed, at time.Time) Rate {
	if p.Stopped {
		return b.SpareRate(p.Shape)
	}
	return b.Rate(p.Shape, p.Host, at)
}

// HostRate is the fixed part of what a host costs per hour, charged once while it carries at
// least one of our machines. A host without a name has none.
func (b *Book) HostRate(host string, at time.Time) Rate {
	return b.reckonHost(host, b.tariffAt(at)).rate()
}

// Total is what a set of machines costs per hour at the given time, each host's fixed part
// counted once. With the machines on order among them it is the predicted hourly cost.
func (b *Book) Total(machines []Placed, at time.Time) Rate {
	total := new(big.Int)
	hosts := make(map[string]bool)
	rates := make(map[Placed]Rate) // many machines are alike, and prices take long to work out
	for _, m := range machines {
		rate, known := rates[m]
		if !known {
			rate = b.rate(m, at)
			rates[m] = rate
		}
		total.Add(total, big.NewInt(int64(rate)))
		if !hosts[m.Host] {
			hosts[m.Host] = true
			total.Add(total, big.NewInt(int64(b.HostRate(m.Host, at))))
		}
	}
	return Rate(saturate(total))
}

// bytesPerRate is Micros per GB × bytes, in Rate.
const bytesPerRate = 1e6

// plainRate is Rate for books of nothing but prices per vCPU, GB and machine, the hosts' own among
// them, as long as the numbers are small enough to do without big ones. A simulated week asks for
// millions of rates.
func (b *Book) plainRate(s Shape, host string) (Rate, bool) {
	own := b.Hosts[host].Prices
	if b.PerGiB != 0 || own.PerGiB != nil || b.Derived != nil || len(b.Shapes)+len(b.Tariffs) > 0 {
		return 0, false
	}
	perVCPU, perGB := *or(own.PerVCPU, &b.PerVCPU), *or(own.PerGB, &b.PerGB)
	if perVCPU < 0 || perGB < 0 || b.PerMachine < 0 || s.CPU < 0 || s.Memory < 0 {
		return 0, false
	}
	cpuHigh, cpu := bits.Mul64(uint64(perVCPU), uint64(s.CPU))
	memoryHigh, memory := bits.Mul64(uint64(perGB), uint64(s.Memory))
	machineHigh, machine := bits.Mul64(uint64(b.PerMachine), rateScale)
	if cpuHigh|memoryHigh|machineHigh != 0 || (cpu|memory|machine)>>61 != 0 {
		return 0, false
	}
	return Rate(cpu + (memory+bytesPerRate/2)/bytesPerRate + machine), true
}
