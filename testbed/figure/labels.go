package figure

import "math"

// box is where something lies on a drawing.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) touches(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

// wordHeight is that of a line of text, and beside the distance of a name from its point.
const wordHeight, beside = 14, 10

// mostNamed is how many points are named directly; a crowd is read better with a legend.
const mostNamed = 16

// named puts the names of a scatter's points beside them, each at the first place that is free:
// right, left, above, below. It is nil where any finds none.
func (d *drawing) named() []box {
	c := d.chart
	if !c.Scatter || len(c.X.Lines)+len(c.Y.Lines) > 0 || len(c.Series) > mostNamed {
		return nil
	}
	var taken []box
	for i := range c.Series {
		s := &c.Series[i]
		if s.Guide {
			continue
		}
		if len(s.Points) != 1 || math.IsNaN(s.Points[0].X) || math.IsNaN(s.Points[0].Y) {
			return nil
		}
		x, y := d.px(s.Points[0].X), d.py(s.Points[0].Y)
		taken = append(taken, box{x - 6, y - 6, x + 6, y + 6})
	}
	points := len(taken)
	for i, n := 0, 0; i < len(c.Series); i++ {
		if c.Series[i].Guide {
			continue
		}
		p := taken[n]
		n++
		place, found := d.place((p.x0+p.x1)/2, (p.y0+p.y1)/2, letter*float64(len([]rune(c.Series[i].Name))), taken)
		if !found {
			return nil
		}
		taken = append(taken, place)
	}
	return taken[points:]
}

// place is the first free place for a word of that width beside a point.
func (d *drawing) place(x, y, long float64, taken []box) (box, bool) {
	for _, at := range []box{
		{x + beside, y - wordHeight/2, x + beside + long, y + wordHeight/2},
		{x - beside - long, y - wordHeight/2, x - beside, y + wordHeight/2},
		{x - long/2, y - beside - wordHeight, x + long/2, y - beside},
		{x - long/2, y + beside, x + long/2, y + beside + wordHeight},
	} {
		free := at.x0 > d.left+2 && at.x1 < d.width-4 && at.y0 > d.top && at.y1 < d.floor-2
		for _, t := range taken {
			free = free && !at.touches(t)
		}
		if free {
			return at, true
		}
	}
	return box{}, false
}

// label draws the names at their places.
func (d *drawing) label() {
	for i, n := 0, 0; i < len(d.chart.Series); i++ {
		if d.chart.Series[i].Guide {
			continue
		}
		d.f(`<text class="h" x="%s" y="%s">%s</text>`+"\n", num(d.names[n].x0), num(d.names[n].y1-3), esc(d.chart.Series[i].Name))
		n++
	}
}
