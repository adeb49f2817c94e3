package pricing

import (
	"math/big"
	"time"
)

// price is an exact price in Micros per hour: of one vCPU, of so many bytes, or of a whole.
type price struct {
	micros *big.Rat
	per    Bytes  // of memory only
	from   string // whose price it is, where it is not the book's own
}

// reckoning is the working of a machine's price. Rate reads off its sum and Quote prints it, so
// that what is charged and what is explained cannot differ.
type reckoning struct {
	book    *Book
	shape   Shape
	tariff  *Tariff // in force; nil outside all windows
	whole   *price  // set when the shape has one price for everything; the parts are unset then
	vcpu    price
	memory  price
	derived *derivedPrices // set when a part's price is derived
}

// reckon finds the prices that count for a machine.
func (b *Book) reckon(s Shape, host string, at time.Time) *reckoning {
	r := &reckoning{book: b, shape: s, tariff: b.tariffAt(at)}
	if own := b.Shapes[s.Name]; own.PerHour != nil {
		r.whole = &price{micros: ratOf(int64(*own.PerHour)), from: "shape " + s.Name}
		return r
	}
	own := b.ownPrices(s, host, r.tariff)
	var ok bool
	if r.vcpu, ok = firstPrice(own, Prices.vcpu); !ok {
		r.vcpu = b.baseVCPU(r.derive(host))
	}
	if r.memory, ok = firstPrice(own, Prices.memory); !ok {
		r.memory = b.baseMemory(r.derive(host))
	}
	return r
}

// derive works out the derived prices, once, or returns nil if the book has none.
func (r *reckoning) derive(host string) *derivedPrices {
	if r.derived == nil && r.book.Derived != nil {
		r.derived = r.book.Derived.on(r.book.Hosts[host].Hardware).prices(r.tariff)
	}
	return r.derived
}

// owner is someone with prices of their own.
type owner struct {
	name string
	Prices
}

// ownPrices lists who may have prices other than the book's, the most particular first.
func (b *Book) ownPrices(s Shape, host string, t *Tariff) []owner {
	var owners []owner
	if p, ok := b.Shapes[s.Name]; ok {
		owners = append(owners, owner{"shape " + s.Name, p.Prices})
	}
	if p, ok := b.Hosts[host]; ok {
		owners = append(owners, owner{"host " + host, p.Prices})
	}
	if t != nil {
		owners = append(owners, owner{"tariff " + t.Label(), t.Prices})
	}
	return owners
}

// firstPrice returns the first owner's price of a part.
func firstPrice(owners []owner, part func(Prices) (price, bool)) (price, bool) {
	for _, o := range owners {
		if p, ok := part(o.Prices); ok {
			p.from = o.name
			return p, true
		}
	}
	return price{}, false
}

func (p Prices) vcpu() (price, bool) {
	if p.PerVCPU == nil {
		return price{}, false
	}
	return price{micros: ratOf(int64(*p.PerVCPU))}, true
}

func (p Prices) memory() (price, bool) {
	switch {
	case p.PerGiB != nil:
		return price{micros: ratOf(int64(*p.PerGiB)), per: GiB}, true
	case p.PerGB != nil:
		return price{micros: ratOf(int64(*p.PerGB)), per: GB}, true
	}
	return price{}, false
}

func (b *Book) baseVCPU(d *derivedPrices) price {
	if d != nil {
		return price{micros: d.perVCPU}
	}
	return price{micros: ratOf(int64(b.PerVCPU))}
}

func (b *Book) baseMemory(d *derivedPrices) price {
	switch {
	case d != nil:
		return price{micros: d.perGB, per: GB}
	case b.PerGiB != 0:
		return price{micros: ratOf(int64(b.PerGiB)), per: GiB}
	default:
		return price{micros: ratOf(int64(b.PerGB)), per: GB}
	}
}

// vcpuMicros and memoryMicros are what the machine's parts come to.
func (r *reckoning) vcpuMicros() *big.Rat {
	cores := big.NewRat(int64(r.shape.CPU), int64(Core))
	return cores.Mul(cores, r.vcpu.micros)
}

func (r *reckoning) memoryMicros() *big.Rat {
	size := big.NewRat(int64(r.shape.Memory), int64(r.memory.per))
	return size.Mul(size, r.memory.micros)
}

// machineMicros is what having the machine costs, besides its parts.
func (r *reckoning) machineMicros() *big.Rat { return ratOf(int64(r.book.PerMachine)) }

// micros is what the machine comes to in all, with the tariff's percentage.
func (r *reckoning) micros() *big.Rat {
	var sum *big.Rat
	if r.whole != nil {
		sum = new(big.Rat).Set(r.whole.micros)
	} else {
		sum = r.vcpuMicros()
		sum.Add(sum, r.memoryMicros()).Add(sum, r.machineMicros())
	}
	return r.book.scaled(sum, r.tariff)
}

// cpuShare is the part of the two parts' prices that is for the vCPUs, half where these come to
// nothing.
func (r *reckoning) cpuShare() *big.Rat {
	cpu, both := r.vcpuMicros(), r.vcpuMicros()
	if both.Add(both, r.memoryMicros()); both.Sign() == 0 {
		return big.NewRat(1, 2)
	}
	return cpu.Quo(cpu, both)
}

// rate is the machine's price, rounded once.
func (r *reckoning) rate() Rate { return rateOfRat(r.micros()) }

// scaled applies the tariff's percentage to a price. In a derived book the percentage is of the
// price of energy, and has been applied to that.
func (b *Book) scaled(micros *big.Rat, t *Tariff) *big.Rat {
	if !b.scales(t) {
		return micros
	}
	return micros.Mul(micros, big.NewRat(int64(*t.Percent), int64(Hundred)))
}

func (b *Book) scales(t *Tariff) bool { return t != nil && t.Percent != nil && b.Derived == nil }

// hostReckoning is the working of a host's fixed part.
type hostReckoning struct {
	book   *Book
	host   string
	tariff *Tariff
	fixed  Micros
	from   string
}

func (b *Book) reckonHost(host string, t *Tariff) hostReckoning {
	r := hostReckoning{book: b, host: host, tariff: t}
	own := b.Hosts[host].PerHost
	switch {
	case host == "":
	case own != nil:
		r.fixed, r.from = *own, "host "+host
	case t != nil && t.PerHost != nil:
		r.fixed, r.from = *t.PerHost, "tariff "+t.Label()
	default:
		r.fixed = b.PerHost
	}
	return r
}

func (r hostReckoning) rate() Rate {
	if !r.book.scales(r.tariff) {
		return RateOf(r.fixed)
	}
	return rateOfRat(r.book.scaled(ratOf(int64(r.fixed)), r.tariff))
}

func ratOf(n int64) *big.Rat { return new(big.Rat).SetInt64(n) }

// rateOfRat rounds an exact number of Micros per hour to a Rate.
func rateOfRat(micros *big.Rat) Rate {
	return Rate(divRound(new(big.Int).Mul(micros.Num(), big.NewInt(rateScale)), micros.Denom()))
}
