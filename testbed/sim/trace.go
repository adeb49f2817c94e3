package sim

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// ReadTrace reads a recorded load, a line "minute,count" for each minute from 0 on, as a curve of
// requests a second: each minute at its own mean rate. A first line that names the columns is
// read over.
func ReadTrace(r io.Reader) (Curve, error) {
	var c Curve
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		if n == 1 && strings.HasPrefix(lines.Text(), "minute,") {
			continue
		}
		minute, count, err := traceLine(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("trace line %d: %w", n, err)
		}
		if want := len(c) / 2; minute != want {
			return nil, fmt.Errorf("trace line %d: minute: must be %d, the next one, was %d", n, want, minute)
		}
		at, rate := time.Duration(minute)*time.Minute, float64(count)/60
		c = append(c, Point{at, rate}, Point{at + time.Minute, rate})
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	if len(c) == 0 {
		return nil, fmt.Errorf("trace: must have a minute at least, was empty")
	}
	return c, nil
}

func traceLine(line string) (minute, count int, err error) {
	first, second, ok := strings.Cut(line, ",")
	if !ok {
		return 0, 0, fmt.Errorf("must be minute,count, was %q", line)
	}
	if minute, err = strconv.Atoi(strings.TrimSpace(first)); err != nil {
		return 0, 0, fmt.Errorf("minute: must be a whole number, was %q", first)
	}
	if count, err = strconv.Atoi(strings.TrimSpace(second)); err != nil || count < 0 {
		return 0, 0, fmt.Errorf("count: must be a whole number from 0 up, was %q", second)
	}
	return minute, count, nil
}

// Scaled returns the curve with every level multiplied.
func (c Curve) Scaled(by float64) Curve {
	out := make(Curve, len(c))
	for i, p := range c {
		out[i] = Point{p.At, p.Level * by}
	}
	return out
}

// From returns the curve as it goes on from a time, which becomes its start.
func (c Curve) From(start time.Duration) Curve {
	out := Curve{{0, c.At(start)}}
	for _, p := range c {
		if p.At > start {
			out = append(out, Point{p.At - start, p.Level})
		}
	}
	return out
}

// Until returns the curve's points up to a time. Its last level holds on.
func (c Curve) Until(end time.Duration) Curve {
	out := Curve{}
	for _, p := range c {
		if p.At < end {
			out = append(out, p)
		}
	}
	return out
}
