package pricing

import (
	"fmt"
	"math/big"
	"strings"
	"time"
)

// Quote is what a machine costs per hour, and why.
type Quote struct {
	// Rate is the machine's price, as Book.Rate returns it.
	Rate Rate `json:"rate"`
	// HostRate is the fixed part of its host, charged once however many machines it carries.
	HostRate Rate `json:"hostRate,omitempty"`
	// Tariff is the label of the tariff in force, if there is one.
	Tariff string `json:"tariff,omitempty"`
	// Derivation is the working, one line after the other up to Rate and HostRate. It was done
	// exactly; what it shows of it has nine decimals.
	Derivation []Line `json:"derivation"`
}

// Line is one line of a working: what = how = value.
type Line struct {
	What  string `json:"what"`
	How   string `json:"how"`
	Value string `json:"value"`
}

// String prints the line.
func (l Line) String() string { return l.What + " = " + l.How + " = " + l.Value }

// Quote prices a machine as Rate and HostRate do, and shows how.
func (b *Book) Quote(s Shape, host string, at time.Time) Quote {
	r := b.reckon(s, host, at)
	fixed := b.reckonHost(host, r.tariff)
	q := Quote{Rate: r.rate(), HostRate: fixed.rate(), Derivation: r.lines(at)}
	if r.tariff != nil {
		q.Tariff = r.tariff.Label()
	}
	if q.HostRate != 0 {
		q.Derivation = append(q.Derivation, fixed.line())
	}
	return q
}

// lines shows the working of a machine's price.
func (r *reckoning) lines(at time.Time) []Line {
	var lines []Line
	if len(r.book.Tariffs) > 0 {
		lines = append(lines, r.tariffLine(at))
	}
	if r.whole != nil {
		return append(lines, r.totalLine(show(r.whole.micros)+byOwner(r.whole.from)))
	}
	if r.derived != nil {
		lines = append(lines, r.derived.lines(r.book.Unit)...)
	}
	vcpu, memory := r.vcpuMicros(), r.memoryMicros()
	lines = append(lines, Line{
		"vCPU",
		fmt.Sprintf("%s vCPU × %s %s/vCPU-hour%s", r.shape.CPU.Cores(), show(r.vcpu.micros), r.book.Unit, byOwner(r.vcpu.from)),
		show(vcpu) + " " + r.book.Unit + "/h",
	})
	lines = append(lines, r.memoryLines(memory)...)
	terms := []string{show(vcpu), show(memory)}
	if each := r.book.PerMachine; each != 0 {
		lines = append(lines, Line{"each machine", each.String() + ", besides its vCPUs and memory", each.String() + " " + r.book.Unit + "/h"})
		terms = append(terms, each.String())
	}
	return append(lines, r.totalLine(sum(terms)))
}

func (r *reckoning) tariffLine(at time.Time) Line {
	zone := r.book.Zone.location()
	line := Line{"tariff", at.In(zone).Format("Mon 15:04") + " in " + zone.String(), "none"}
	if t := r.tariff; t != nil {
		line.Value = t.window()
		if t.Name != "" {
			line.Value = t.Name + " (" + t.window() + ")"
		}
	}
	return line
}

func (r *reckoning) memoryLines(cost *big.Rat) []Line {
	var lines []Line
	unit := strings.TrimPrefix(r.memory.per.String(), "1")
	size := showRat(big.NewRat(int64(r.shape.Memory), int64(r.memory.per)))
	if given := r.shape.Memory.String(); given != size+unit {
		lines = append(lines, Line{"memory size", given + " in " + unit, size + " " + unit})
	}
	return append(lines, Line{
		"memory",
		fmt.Sprintf("%s %s × %s %s/%s-hour%s", size, unit, show(r.memory.micros), r.book.Unit, unit, byOwner(r.memory.from)),
		show(cost) + " " + r.book.Unit + "/h",
	})
}

func (r *reckoning) totalLine(sum string) Line {
	return Line{"machine", r.book.showScaled(sum, r.tariff), r.rate().String() + " " + r.book.Unit + "/h"}
}

func (r hostReckoning) line() Line {
	how := r.book.showScaled(r.fixed.String()+byOwner(r.from), r.tariff)
	return Line{"host " + r.host, how + ", once, while it carries any machine", r.rate().String() + " " + r.book.Unit + "/h"}
}

// showScaled shows the tariff's percentage of a sum.
func (b *Book) showScaled(sum string, t *Tariff) string {
	if !b.scales(t) {
		return sum
	}
	return fmt.Sprintf("(%s) × %s %% (tariff %s)", sum, *t.Percent, t.Label())
}

// byOwner names whose price it is, when it is not the book's own.
func byOwner(name string) string {
	if name == "" {
		return ""
	}
	return " (" + name + ")"
}

// lines shows the working of derived prices.
func (p *derivedPrices) lines(unit string) []Line {
	lines := []Line{p.kWhLine(unit)}
	add := func(what, how string, value *big.Rat, per string) {
		lines = append(lines, Line{what, how, show(value) + " " + unit + "/" + per})
	}
	watts := func(w MilliWatts) string {
		return fmt.Sprintf("%s W × %s %s/kWh ÷ 1000", w, show(p.perKWh), unit)
	}
	d := &p.from
	if p.energy != nil {
		add("energy", watts(*d.WattsPerHost), p.energy, "h")
	}
	if p.hardware != nil {
		add("hardware", fmt.Sprintf("%s %s ÷ (%d months × %d h)", *d.HardwarePrice, unit, d.AmortiseMonths, hoursPerMonth), p.hardware, "h")
	}
	if p.energy != nil && p.hardware != nil {
		add("host", show(p.energy)+" + "+show(p.hardware), p.shared, "h")
	}
	var vcpu, memory []string
	if d.WattsPerVCPU != nil {
		vcpu = append(vcpu, watts(*d.WattsPerVCPU))
	}
	if d.WattsPerGB != nil {
		memory = append(memory, watts(*d.WattsPerGB))
	}
	if p.shared != nil {
		vcpu = append(vcpu, fmt.Sprintf("%s %% of %s ÷ %s vCPU", *d.VCPUShare, show(p.shared), d.HostVCPU.Cores()))
		memory = append(memory, fmt.Sprintf("%s %% of %s ÷ %s GB", Hundred-*d.VCPUShare, show(p.shared), trimDecimal(int64(*d.HostMemory), 9)))
	}
	add("vCPU price", sum(vcpu), p.perVCPU, "vCPU-hour")
	add("memory price", sum(memory), p.perGB, "GB-hour")
	return lines
}

func (p *derivedPrices) kWhLine(unit string) Line {
	how := "as the book says"
	switch t := p.tariff; {
	case t != nil && t.PerKWh != nil:
		how = "tariff " + t.Label()
	case t != nil && t.Percent != nil:
		how = fmt.Sprintf("%s × %s %% (tariff %s)", p.from.PerKWh, *t.Percent, t.Label())
	}
	return Line{"energy price", how, show(p.perKWh) + " " + unit + "/kWh"}
}

// sum shows an addition; of nothing, it is 0.
func sum(terms []string) string {
	if len(terms) == 0 {
		return "0"
	}
	return strings.Join(terms, " + ")
}

// show prints an exact number of Micros in units, to nine decimals.
func show(micros *big.Rat) string {
	return showRat(new(big.Rat).Quo(micros, ratOf(int64(Unit))))
}

// showRat prints a number to nine decimals.
func showRat(r *big.Rat) string {
	return trimDecimal(divRound(new(big.Int).Mul(r.Num(), pow10(9)), r.Denom()), 9)
}
