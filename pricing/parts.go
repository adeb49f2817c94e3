package pricing

import "time"

// Parts is a machine's price by what is paid for. The two add up to its rate.
type Parts struct {
	CPU    Rate `json:"cpu"`
	Memory Rate `json:"memory"`
}

// Sum is both parts together.
func (p Parts) Sum() Rate { return p.CPU + p.Memory }

// Parts divides what Rate returns into what is paid for the vCPUs and for the memory. What having
// a machine costs, and a shape's one price for everything, are divided as the prices of vCPU and
// memory would divide them, and in halves where these come to nothing.
func (b *Book) Parts(s Shape, host string, at time.Time) Parts {
	r := b.reckon(s, host, at)
	exact := r.micros()
	whole := rateOfRat(exact)
	if r.whole != nil {
		s.Name = "" // as if the shape had no price of its own
		r = b.reckon(s, host, at)
	}
	cpu := rateOfRat(exact.Mul(exact, r.cpuShare()))
	return Parts{CPU: cpu, Memory: whole - cpu} // rounding keeps order: cpu is not above the whole
}
