package hull

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
)

// The widest and the narrowest hull, walls included.
const (
	broadest = 60
	slimmest = 18
)

// ships draws the hosts side by side, with hulls of so many rows, and names the hosts that
// there is no room for.
func (f *Frame) ships(width, height int) []row {
	const gap = 2
	n := min(len(f.Hosts), max(1, (width+gap)/(slimmest+gap)))
	rows := make([]row, height+2)
	if n == 0 {
		rows[0] = text("no host is known")
		return rows
	}
	beam := min((width-gap*(n-1))/n, broadest)
	for i := range n {
		for y, r := range f.ship(&f.Hosts[i], beam, height) {
			if i > 0 {
				rows[y] = rows[y].and(Plain, strings.Repeat(" ", gap))
			}
			rows[y] = append(rows[y], r.fit(beam)...)
		}
	}
	if more := len(f.Hosts) - n; more > 0 {
		rows[height+1] = rows[height+1].fit(max(0, width-20)).and(Strong, fmt.Sprintf(" and %d hosts more", more))
	}
	return rows
}

// ship draws one host: its head, its hull and its keel. The line lies where the host's room is
// used up; above it is the freeboard, which stays dry.
func (f *Frame) ship(h *loop.HostLoad, beam, height int) []row {
	load := share(committed(h), h.Room)
	walls := Plain
	if load > 1 || !h.Online {
		walls = Bad
	}
	line := height - max(1, height/8)
	cargo := stow(h, line, height)
	rows := []row{head(h, load)}
	for y := height - 1; y >= 0; y-- {
		wall, empty := "│", " "
		if y == line {
			wall, empty = "⊖", "┄"
		}
		inside := row{{Plain, strings.Repeat(empty, beam-2)}}
		switch {
		case !h.Online && y == height/2:
			inside = row{{Bad, centred("✗ DOWN", beam-2)}}
		case cargo[y] != nil:
			inside = cargo[y].draw(beam-2, h.Online)
		}
		rows = append(rows, append(append(row{{walls, wall}}, inside.fit(beam-2)...), piece{walls, wall}))
	}
	return append(rows, row{{walls, "╰" + strings.Repeat("─", beam-2) + "╯"}})
}

// head names the host and says how far it is loaded.
func head(h *loop.HostLoad, load float64) row {
	r := row{{Plain, " "}, {Strong, h.Name}}
	switch {
	case !h.Online:
		return r.and(Bad, "  ✗ down")
	case load > 1:
		return r.and(Bad, fmt.Sprintf("  %.0f %% ! over line", math.Ceil(100*load)))
	}
	return r.and(Plain, fmt.Sprintf("  %.0f %% of %s vCPU", 100*load, h.Room.CPU.Cores()))
}

// committed is what the host's machines may use of it.
func committed(h *loop.HostLoad) (sum pricing.Resources) {
	for i := range h.Machines {
		if h.Machines[i].Phase != nodescaler.Spare {
			sum = sum.Plus(h.Machines[i].Shape.Resources())
		}
	}
	return sum
}

// share is the larger of the shares of CPU and memory.
func share(of, room pricing.Resources) float64 {
	part := func(a, b float64) float64 {
		if b <= 0 {
			return 0
		}
		return a / b
	}
	return max(part(float64(of.CPU), float64(room.CPU)), part(float64(of.Memory), float64(room.Memory)))
}

// deck is a row of a hull with a machine in it.
type deck struct {
	machine *loop.MachineLoad
	named   bool // the top row of its machine: the one with the name
}

// stow stacks the host's machines from the keel up, those that are nodes below those that are
// not, and returns what lies in each of height rows, of which those below the line are the
// host's room. What does not fit into the hull is omitted.
func stow(h *loop.HostLoad, line, height int) []*deck {
	machines := make([]*loop.MachineLoad, 0, len(h.Machines))
	for i := range h.Machines {
		if m := &h.Machines[i]; m.Phase != nodescaler.Spare { // one that is stopped weighs nothing
			machines = append(machines, m)
		}
	}
	afloat := func(m *loop.MachineLoad) int {
		if m.Phase == nodescaler.Joined {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(machines, func(a, b *loop.MachineLoad) int {
		return cmp.Or(cmp.Compare(afloat(a), afloat(b)), strings.Compare(a.Name, b.Name))
	})
	rows := make([]*deck, height)
	y, sum := 0, pricing.Resources{}
	for _, m := range machines {
		sum = sum.Plus(m.Shape.Resources())
		top := int(share(sum, h.Room)*float64(line) + 0.5)
		for first := y; y < min(max(top, first), height); y++ {
			rows[y] = &deck{machine: m}
		}
	}
	// Names are read from above.
	for y := height - 1; y >= 0; y-- {
		if rows[y] != nil {
			rows[y].named = y == height-1 || rows[y+1] == nil || rows[y+1].machine != rows[y].machine
		}
	}
	return rows
}

// draw fills a row with its machine: as much water as its pods ask for, and its name on it.
func (d *deck) draw(width int, online bool) row {
	m := d.machine
	var cells []piece
	switch {
	case !online:
		cells = []piece{{Faint, strings.Repeat("×", width)}}
	case m.Phase == nodescaler.Joined:
		wet := min(int(share(m.Requests, m.Shape.Resources())*float64(width)+0.5), width)
		cells = []piece{{Water, strings.Repeat("▓", wet)}, {Free, strings.Repeat("~", width-wet)}}
	default:
		cells = []piece{{Doubt, strings.Repeat("·", width)}}
	}
	if !d.named {
		return cells
	}
	label := []rune(" " + label(m) + " ")
	label = label[:min(len(label), width-1)]
	return lay(cells, 1, label)
}

// label is the machine's name, without its pool, how many pods it carries, and what becomes of
// it. The number is there because the label hides the water.
func label(m *loop.MachineLoad) string {
	name := m.Name
	if _, after, ok := strings.Cut(name, "-"); ok {
		name = after
	}
	if m.Phase == nodescaler.Joined {
		name += fmt.Sprintf(" (%d)", m.Pods)
	}
	switch {
	case m.Draining:
		return name + " ↓ emptied"
	case m.Phase == nodescaler.Ordered:
		return name + " … cloned"
	case m.Phase == nodescaler.Booting:
		return name + " … boots"
	case m.Phase == nodescaler.Deleting:
		return name + " ✗ going"
	case m.Phase == nodescaler.Failed:
		return name + " ✗ failed"
	}
	return name
}

// lay puts a label over the cells, from a column on.
func lay(cells row, at int, label []rune) row {
	var out row
	x := 0
	for _, p := range cells {
		runes := []rune(p.text)
		before := runes[:min(max(at-x, 0), len(runes))]
		after := runes[min(max(at+len(label)-x, 0), len(runes)):]
		out = out.and(p.style, string(before))
		if x <= at && at < x+len(runes) {
			out = out.and(Strong, string(label))
		}
		out = out.and(p.style, string(after))
		x += len(runes)
	}
	return out
}

func centred(s string, width int) string {
	pad := max(0, width-len([]rune(s)))
	return strings.Repeat(" ", pad/2) + s + strings.Repeat(" ", pad-pad/2)
}
