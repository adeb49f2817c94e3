package replay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTracesAreReadAsTheyAre(t *testing.T) {
	want := &Trace{Name: "shop.csv", Counts: []float64{120, 0, 30}}
	for _, text := range []string{
		"minute,count\n0,120\n1,0\n2,30\n", "0,120\n1,0\n2,30", "minute, count\r\n0, 120\r\n1, 0\r\n2, 30\r\n",
	} {
		got, err := ReadCSV("shop.csv", strings.NewReader(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestBrokenTracesAreRefusedByTheirLine(t *testing.T) {
	const whole = "must be a whole number from 0 to 9007199254740991"
	for text, want := range map[string]string{
		"":                          "shop.csv: must have 2 minutes at least, had 0",
		"minute,count\n":            "shop.csv: must have 2 minutes at least, had 0",
		"minute,count\n0,7\n":       "shop.csv: must have 2 minutes at least, had 1",
		"0,1\n2,1\n":                "shop.csv line 2: minute: must be 1, for it is the next, was 2: a minute that was not measured is no 0",
		"0,1\n0,1\n":                "shop.csv line 2: minute: must be 1, for it is the next, was 0, which is there already",
		"0,1\n1,1\n2,1\n1,1\n":      "shop.csv line 4: minute: must be 3, for it is the next, was 1, which is there already",
		"5,1\n6,1\n":                "shop.csv line 1: minute: must be 0, for it is the first, was 5",
		"-1,1\n0,1\n":               "shop.csv line 1: minute: must be 0, for it is the first, was -1",
		"0,1\n1,-3\n":               "shop.csv line 2: count: " + whole + `, was "-3"`,
		"0,1\n1,1.5\n":              "shop.csv line 2: count: " + whole + `, was "1.5"`,
		"0,1\n1,NaN\n":              "shop.csv line 2: count: " + whole + `, was "NaN"`,
		"0,1\n1,1e300\n":            "shop.csv line 2: count: " + whole + `, was "1e300"`,
		"0,1\n1,\n":                 "shop.csv line 2: count: " + whole + `, was ""`,
		"0,1\n1,9007199254740992\n": "shop.csv line 2: count: " + whole + `, was "9007199254740992"`,
		"0,1\nzero,1\n":             `shop.csv line 2: minute: must be a whole number, was "zero"`,
		"0,1\n\n1,1\n":              `shop.csv line 2: columns: must be minute,count, was ""`,
		"0,1\n1,1,1\n":              `shop.csv line 2: columns: must be minute,count, was "1,1,1"`,
		"0;1\n1;1\n":                `shop.csv line 1: columns: must be minute,count, was "0;1"`,
		"minute,count,site\n0,1,a":  `shop.csv line 1: columns: must be minute,count, was "minute,count,site"`,
		"time,requests\n0,1\n1,1\n": `shop.csv line 1: columns: must be minute,count, was "time,requests"`,
		"count,minute\n0,1\n1,1\n":  `shop.csv line 1: columns: must be minute,count, was "count,minute"`,
		"\n0,1\n1,1\n":              `shop.csv line 1: columns: must be minute,count, was ""`,
		"0,1\nminute,count\n1,1\n":  `shop.csv line 2: minute: must be a whole number, was "minute"`,
	} {
		if got, err := ReadCSV("shop.csv", strings.NewReader(text)); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v\nwant %s", text, got, err, want)
		}
	}
}

func TestLinesWithoutEndAreRefused(t *testing.T) {
	_, err := ReadCSV("shop.csv", strings.NewReader("0,1\n1,"+strings.Repeat("1", 1<<20)))
	if err == nil || err.Error() != "shop.csv line 2: bufio.Scanner: token too long" {
		t.Errorf("%v", err)
	}
}

func TestATraceOfLessThanADayHasNoWindow(t *testing.T) {
	trace := &Trace{Name: "noon", Counts: make([]float64, 60)}
	const want = "noon: must have a whole day of 1440 minutes at least, had 60"
	if _, err := trace.Window(0, 1); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestWindowsAreWholeDays(t *testing.T) {
	trace := &Trace{Name: "may", Counts: make([]float64, 3*MinutesADay+5)}
	trace.Counts[MinutesADay] = 7
	got, err := trace.Window(1, 2)
	if err != nil || got.Name != "may/01" || len(got.Counts) != 2*MinutesADay || got.Counts[0] != 7 {
		t.Errorf("%v %v", got, err)
	}
	for _, c := range []struct {
		day, days int
		want      string
	}{
		{-1, 1, "may: day: must be from 0 to 2, was -1"},
		{3, 1, "may: day: must be from 0 to 2, was 3"},
		{1, 0, "may: days: must be from 1 to 2 from day 1 on, was 0"},
		{1, 3, "may: days: must be from 1 to 2 from day 1 on, was 3"},
	} {
		if _, err := trace.Window(c.day, c.days); err == nil || err.Error() != c.want {
			t.Errorf("%d, %d: %v, want %s", c.day, c.days, err, c.want)
		}
	}
}
