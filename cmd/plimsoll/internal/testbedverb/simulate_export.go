package testbedverb

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/testbed/replay"
)

// rateAt is a rate of requests a second, as Grafana or Prometheus exports it.
type rateAt struct {
	at   time.Time
	rate float64
	row  string // where it is, for errors
}

// readExport reads rates with their times: lines of time,rate as Grafana exports a panel, or the
// JSON that Prometheus answers a range query with. It reports whether the text is one of them.
func readExport(name string, text []byte) (*recorded, bool, error) {
	var rates []rateAt
	var err error
	switch first, rest, _ := strings.Cut(string(text), "\n"); {
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		rates, err = promRates(text)
	case isTimed(first), strings.Contains(first, ",") && !strings.HasPrefix(strings.TrimSpace(first), "minute") && isTimed(strings.SplitN(rest, "\n", 2)[0]):
		rates, err = timedRates(string(text))
	default:
		return nil, false, nil
	}
	if err == nil {
		var t *replay.Trace
		if t, err = perMinute(name, rates); err == nil {
			load := &recorded{Trace: t, from: rates[0].at.Truncate(time.Minute)}
			load.zoneless = zonelessDate.Match(text)
			return load, true, nil
		}
	}
	return nil, true, fmt.Errorf("%s: %w", name, err)
}

// isTimed reports whether a line begins with a time.
func isTimed(line string) bool {
	text, _, _ := strings.Cut(line, ",")
	_, ok := exportTime(text)
	return ok
}

// zonelessDate is a line that begins with a date without its zone.
var zonelessDate = regexp.MustCompile(`(?m)^\s*"?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(\.\d+)?"?\s*,`)

// Columns whose names say that they are rates of requests a second, or none. Labels say nothing.
var (
	labels   = regexp.MustCompile(`\{[^}]*\}`)
	isRate   = regexp.MustCompile(`(?i)rate\(|per.?second|/ ?s([^a-z]|$)|[rq]ps|/ ?60`)
	ofMinute = regexp.MustCompile(`(?i)(^|[^a-z])(minutes?|rpm)([^a-z]|$)|/ ?min|increase\(`)
	ofSecond = regexp.MustCompile(`(?i)rate|second|/ ?s|[rq]ps`)
	ofCount  = regexp.MustCompile(`(?i)(^|[^a-z])(counts?|requests?)([^a-z]|$)`)
)

// checkColumns refuses a line of names that says that what follows are no rates.
func checkColumns(line string) error {
	_, column, _ := strings.Cut(line, ",")
	if column = labels.ReplaceAllString(column, ""); isRate.MatchString(column) {
		return nil
	}
	if ofMinute.MatchString(column) || ofCount.MatchString(column) && !ofSecond.MatchString(column) {
		return fmt.Errorf("line 1: the second column must be a rate of requests a second, was %q: divide counts of a minute by 60, or write lines of minute,count; if it is one, name it rate", strings.TrimSpace(column))
	}
	return nil
}

// leastEpoch keeps minutes from being taken for times: it is in 2001, as seconds.
const leastEpoch = 1e9

// earliest and latest bound what is a time of a load, and not one in another unit.
var (
	earliest = time.Unix(leastEpoch, 0)
	latest   = time.Date(2101, time.January, 1, 0, 0, 0, 0, time.UTC)
)

// longestStep is the most that a rate may hold for.
const longestStep = 24 * time.Hour

// exportTime reads a time as exports have it: seconds, milliseconds, microseconds or nanoseconds
// since 1970, or a date.
func exportTime(text string) (time.Time, bool) {
	text = strings.Trim(strings.TrimSpace(text), `"`)
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		isTime := n >= leastEpoch && !math.IsInf(n, 0)
		for isTime && n >= 100*leastEpoch {
			n /= 1000
		}
		return time.UnixMilli(int64(math.Round(n * 1000))).UTC(), isTime
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}

// timedRates reads lines of time,rate. The columns may be named.
func timedRates(text string) ([]rateAt, error) {
	var all []rateAt
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		fields, row := strings.Split(strings.TrimSpace(line), ","), fmt.Sprintf("line %d", i+1)
		if i == 0 && !isTimed(line) {
			if err := checkColumns(line); err != nil {
				return nil, err
			}
			continue
		}
		at, ok := exportTime(fields[0])
		if len(fields) != 2 || !ok {
			return nil, fmt.Errorf("%s: must be a time and a rate, of one series, was %q", row, line)
		}
		rate, err := strconv.ParseFloat(strings.Trim(fields[1], `"`), 64)
		if err != nil {
			return nil, fmt.Errorf("%s: the rate must be a number of requests a second, was %q", row, fields[1])
		}
		all = append(all, rateAt{at, rate, row})
	}
	return all, nil
}

// promRates reads the answer to a range query of one series.
func promRates(text []byte) ([]rateAt, error) {
	var answer struct {
		Data struct {
			Result []struct {
				Values [][2]any `json:"values"`
			} `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return nil, fmt.Errorf("must be what Prometheus answers a range query with: %w", err)
	}
	if n := len(answer.Data.Result); n != 1 {
		return nil, fmt.Errorf("data.result: must be one series, such as that of sum(rate(...)), was %d", n)
	}
	var all []rateAt
	for i, v := range answer.Data.Result[0].Values {
		row := fmt.Sprintf("data.result[0].values[%d]", i)
		at, number := v[0].(float64)
		said, isText := v[1].(string)
		rate, err := strconv.ParseFloat(said, 64)
		if !number || !isText || err != nil {
			return nil, fmt.Errorf("%s: must be a time and a rate, was %v", row, v)
		}
		all = append(all, rateAt{time.UnixMilli(int64(at * 1000)).UTC(), rate, row})
	}
	return all, nil
}

// perMinute makes counts of rates that are evenly apart: of several in a minute their mean counts,
// and one that holds for several minutes counts in each.
func perMinute(name string, rates []rateAt) (*replay.Trace, error) {
	if len(rates) < 2 {
		return nil, fmt.Errorf("must have two rates at least, was %d", len(rates))
	}
	for _, r := range rates {
		if r.at.Before(earliest) || !r.at.Before(latest) {
			return nil, fmt.Errorf("%s: the time must be from 2001 to 2100, was %s", r.row, r.at.Format(time.RFC3339))
		}
	}
	step := rates[1].at.Sub(rates[0].at)
	if step <= 0 || step%time.Minute != 0 && time.Minute%step != 0 {
		return nil, fmt.Errorf("%s: rates must be apart by a part of a minute or by whole minutes, was %s", rates[1].row, step)
	}
	if step > longestStep {
		return nil, fmt.Errorf("%s: rates must be apart by %s at most, was %s", rates[1].row, longestStep, step)
	}
	t := &replay.Trace{Name: name}
	each := max(int(time.Minute/step), 1)
	sum := 0.0
	for i, r := range rates {
		switch {
		case i > 0 && r.at.Sub(rates[i-1].at) != step:
			return nil, fmt.Errorf("%s: must be %s after the one before, was %s: what was not measured is not made up", r.row, step, r.at.Sub(rates[i-1].at))
		case !(r.rate >= 0) || math.IsInf(r.rate, 0):
			return nil, fmt.Errorf("%s: the rate must be 0 or more, was %v", r.row, r.rate)
		}
		if sum += r.rate; (i+1)%each != 0 {
			continue
		}
		for range max(int(step/time.Minute), 1) {
			t.Counts = append(t.Counts, math.Round(sum/float64(each)*60))
		}
		sum = 0
	}
	return t, nil
}
