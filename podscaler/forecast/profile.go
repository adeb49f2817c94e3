package forecast

// profile is how much each place of a season is above or below the whole, learnt as the seasons
// pass. It is known after the first.
type profile struct {
	deviation []float64 // by place in the season; the values themselves during the first
	t         int       // periods that have passed
	seen      int       // values of the first season
	known     bool      // the first season is over
	level     float64   // the mean of the first season, once it is over
}

// newProfile returns a profile of so many periods; with none it is never known.
func newProfile(season int) profile { return profile{deviation: make([]float64, season)} }

// at returns the deviation of the period that is h after the last.
func (p *profile) at(h int) float64 {
	if !p.known {
		return 0
	}
	return p.deviation[(p.t+h-1)%len(p.deviation)]
}

// observe takes a value, what it should have been without the season, and reports whether the
// first season is over with it. A gap leaves the deviation as it is.
func (p *profile) observe(v, level float64) (began bool) {
	if len(p.deviation) == 0 {
		return false
	}
	i := p.t % len(p.deviation)
	p.t++
	switch {
	case gap(v) && p.known:
	case p.known:
		// A mean over the seasons so far, and of about the last ten of many.
		share := 1 / float64(min(1+(p.t-1)/len(p.deviation), 10))
		p.deviation[i] += share * (v - level - p.deviation[i])
	default:
		p.deviation[i] = v // a gap too: center fills it
		if !gap(v) {
			p.seen++
		}
	}
	if p.known || p.seen == 0 || p.t%len(p.deviation) != 0 {
		return false
	}
	p.center()
	return true
}

// center turns the values of the first season into deviations from their mean. Places that
// were never seen deviate by nothing.
func (p *profile) center() {
	sum := 0.0
	for _, v := range p.deviation {
		if !gap(v) {
			sum += v
		}
	}
	p.level = sum / float64(p.seen)
	for i, v := range p.deviation {
		if gap(v) {
			v = p.level
		}
		p.deviation[i] = v - p.level
	}
	p.known = true
}

func (p *profile) size() int { return (len(p.deviation) + 6) * wordBytes }
