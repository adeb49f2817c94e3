package pricing

import "math/big"

// Derived works out prices from what the hosts draw and what they were bought for:
//
//	energy   = watts × price per kWh
//	hardware = price ÷ (months of use × 730 hours)
//
// Power is stated for a whole host or for each vCPU and GB. What is stated for a whole host,
// and the hardware, is shared out over all the vCPU and memory that the host has to give, in
// the stated proportion. Machines that fill a host pay for all of it, and unused capacity is not
// charged to any machine. In a derived book the tariffs are those of energy: a percentage of
// PerKWh, or a price of their own.
type Derived struct {
	Hardware
	WattsPerVCPU *MilliWatts `json:"wattsPerVCPU,omitempty"`
	WattsPerGB   *MilliWatts `json:"wattsPerGB,omitempty"`
	PerKWh       Micros      `json:"pricePerKWh" strict:"required"`
	// AmortiseMonths is how long the hardware is used for.
	AmortiseMonths int `json:"amortiseMonths,omitempty"`
	// VCPUShare is the part of what is shared out that the vCPUs bear; memory bears the rest.
	VCPUShare *Percent `json:"vCPUSharePercent,omitempty"`
}

// Hardware is what differs from host to host in a derived book. The book's own holds for every
// host that does not say otherwise.
type Hardware struct {
	WattsPerHost  *MilliWatts `json:"wattsPerHost,omitempty"`
	HardwarePrice *Micros     `json:"hardwarePrice,omitempty"`
	// HostVCPU and HostMemory are what a host has to give in all.
	HostVCPU   *MilliCPU `json:"hostVCPU,omitempty"`
	HostMemory *Bytes    `json:"hostMemory,omitempty"`
}

// hoursPerMonth is a twelfth of a year of 365 days.
const hoursPerMonth = 730

// derivedPrices are prices per hour and how they came about, in exact Micros.
type derivedPrices struct {
	from     Derived // as it holds for the host
	tariff   *Tariff
	perKWh   *big.Rat
	energy   *big.Rat // of the host as a whole; nil if power is stated by vCPU and GB
	hardware *big.Rat // nil if it costs nothing
	shared   *big.Rat // their sum; nil if there is nothing to share out
	perVCPU  *big.Rat
	perGB    *big.Rat
}

// on returns d with what differs on one host.
func (d *Derived) on(h Hardware) Derived {
	own := *d
	own.WattsPerHost = or(h.WattsPerHost, d.WattsPerHost)
	own.HardwarePrice = or(h.HardwarePrice, d.HardwarePrice)
	own.HostVCPU = or(h.HostVCPU, d.HostVCPU)
	own.HostMemory = or(h.HostMemory, d.HostMemory)
	return own
}

func or[T any](first, second *T) *T {
	if first != nil {
		return first
	}
	return second
}

func (d Derived) prices(t *Tariff) *derivedPrices {
	p := &derivedPrices{from: d, tariff: t, perVCPU: new(big.Rat), perGB: new(big.Rat)}
	p.perKWh = ratOf(int64(d.PerKWh))
	switch {
	case t != nil && t.PerKWh != nil:
		p.perKWh = ratOf(int64(*t.PerKWh))
	case t != nil && t.Percent != nil:
		p.perKWh.Mul(p.perKWh, big.NewRat(int64(*t.Percent), int64(Hundred)))
	}
	p.addPower()
	p.shareHost()
	return p
}

// addPower charges the power that is stated for each vCPU and GB.
func (p *derivedPrices) addPower() {
	if w := p.from.WattsPerVCPU; w != nil {
		p.perVCPU.Add(p.perVCPU, p.energyOf(*w))
	}
	if w := p.from.WattsPerGB; w != nil {
		p.perGB.Add(p.perGB, p.energyOf(*w))
	}
}

// shareHost charges what is stated for a host as a whole.
func (p *derivedPrices) shareHost() {
	d := &p.from
	if d.WattsPerHost != nil {
		p.energy = p.energyOf(*d.WattsPerHost)
	}
	if d.HardwarePrice != nil && *d.HardwarePrice != 0 {
		p.hardware = big.NewRat(int64(*d.HardwarePrice), int64(d.AmortiseMonths)*hoursPerMonth)
	}
	if p.energy == nil && p.hardware == nil {
		return
	}
	p.shared = new(big.Rat)
	for _, part := range []*big.Rat{p.energy, p.hardware} {
		if part != nil {
			p.shared.Add(p.shared, part)
		}
	}
	p.perVCPU.Add(p.perVCPU, p.shareOf(*d.VCPUShare, big.NewRat(int64(*d.HostVCPU), int64(Core))))
	p.perGB.Add(p.perGB, p.shareOf(Hundred-*d.VCPUShare, big.NewRat(int64(*d.HostMemory), int64(GB))))
}

// energyOf is what drawing w costs per hour.
func (p *derivedPrices) energyOf(w MilliWatts) *big.Rat {
	kilowatts := big.NewRat(int64(w), 1000*int64(Watt))
	return kilowatts.Mul(kilowatts, p.perKWh)
}

// shareOf is what each of count pays when part of the shared cost is split between them.
func (p *derivedPrices) shareOf(part Percent, count *big.Rat) *big.Rat {
	share := big.NewRat(int64(part), int64(Hundred))
	share.Mul(share, p.shared)
	return share.Quo(share, count)
}
