package testbedverb

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

func TestExportsOfRatesAreLoads(t *testing.T) {
	const notRates, toRates = "x: line 1: the second column must be a rate of requests a second, was ", ": divide counts of a minute by 60, or write lines of minute,count; if it is one, name it rate"
	for text, want := range map[string]string{
		"minute,count\n0,5\n1,6\n": "not an export",
		"0,5\n1,6\n":               "not an export",
		"Time,Value\n1767225600000,2\n1767225660000,3\n":                                                                              "[120 180] from 2026-01-01T00:00:00Z",
		"\"Time\",\"web\"\n2026-01-01 00:00:00,1\n2026-01-01 00:00:30,2\n2026-01-01 00:01:00,3\n2026-01-01 00:01:30,4\n":              "[90 210] from 2026-01-01T00:00:00Z",
		"1767225600,1\n1767225720,2\n":                                                                                                "[60 60 120 120] from 2026-01-01T00:00:00Z",
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1767225600,"1.5"],[1767225660,"2"]]}]}}`: "[90 120] from 2026-01-01T00:00:00Z",
		"1767225600000000,2\n1767225660000000,3\n":                                                                                    "[120 180] from 2026-01-01T00:00:00Z",
		"1767225600000000000,2\n1767225660000000000,3\n":                                                                              "[120 180] from 2026-01-01T00:00:00Z",
		"20000000000,2\n20000000060,3\n":                                                                                              "x: line 1: the time must be from 2001 to 2100, was 2603-10-11T11:33:20Z",
		"1999-01-01 00:00:00,2\n1999-01-01 00:01:00,3\n":                                                                              "x: line 1: the time must be from 2001 to 2100, was 1999-01-01T00:00:00Z",
		"1767225600,2\n1798761600,3\n":                                                                                                "x: line 2: rates must be apart by 24h0m0s at most, was 8760h0m0s",
		"+Inf,2\n+Inf,3\n":                                                                                                            "not an export",
		"Time,requests per minute\n1767225600,2\n1767225660,3\n":                                                                      notRates + `"requests per minute"` + toRates,
		"time,count\n1767225600,2\n1767225660,3\n":                                                                                    notRates + `"count"` + toRates,
		"time,sum(rate(http_requests_total[1m]))\n1767225600,2\n1767225660,3\n":                                                       "[120 180] from 2026-01-01T00:00:00Z",
		"time,sum(increase(x[1m]))/60\n1767225600,2\n1767225660,3\n":                                                                  "[120 180] from 2026-01-01T00:00:00Z",
		"time,web{path=\"/minute\"}\n1767225600,2\n1767225660,3\n":                                                                    "[120 180] from 2026-01-01T00:00:00Z",
		"time,requests_per_minute\n1767225600,2\n1767225660,3\n":                                                                      notRates + `"requests_per_minute"` + toRates,
		"time,requests/s\n1767225600,2\n1767225660,3\n":                                                                               "[120 180] from 2026-01-01T00:00:00Z",
		`{"data":{"result":[]}}`:                                                                                                      "x: data.result: must be one series, such as that of sum(rate(...)), was 0",
		"1767225600,1\n1767225660,2\n1767225780,2\n":                                                                                  "x: line 3: must be 1m0s after the one before, was 2m0s: what was not measured is not made up",
		"1767225600,1\n1767225660,-2\n":                                                                                               "x: line 2: the rate must be 0 or more, was -2",
		"1767225600,1\n1767225660,NaN\n":                                                                                              "x: line 2: the rate must be 0 or more, was NaN",
		"1767225600,1\n1767225643,2\n":                                                                                                "x: line 2: rates must be apart by a part of a minute or by whole minutes, was 43s",
		"Time,a,b\n1767225600,1,2\n":                                                                                                  `x: line 2: must be a time and a rate, of one series, was "1767225600,1,2"`,
	} {
		load, is, err := readExport("x", []byte(text))
		got := "not an export"
		switch {
		case err != nil:
			got = err.Error()
		case is:
			got = fmt.Sprintf("%v from %s", load.Counts, load.from.Format("2006-01-02T15:04:05Z07:00"))
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", strings.ReplaceAll(text, "\n", "; "), got, want)
		}
	}
}

func TestJournalsAreLoads(t *testing.T) {
	record := func(minute, second int, rates ...string) string {
		var all []string
		for i, r := range rates {
			all = append(all, fmt.Sprintf(`{"workload":"shop/web%d","inputs":{"arrivals":%s}}`, i, r))
		}
		return fmt.Sprintf(`{"id":"d-1","time":"2026-01-01T00:%02d:%02dZ","workloads":[%s]}`+"\n", minute, second, strings.Join(all, ","))
	}
	for _, c := range []struct{ text, workload, want string }{
		{record(0, 5, "1") + record(0, 40, "2") + record(1, 1, "null") + record(1, 9, "3"), "", "[90 180] x of shop/web0 from 2026-01-01T00:00:00Z"},
		{record(0, 5, "1", "2") + record(1, 5, "1", "3"), "shop/web1", "[120 180] x of shop/web1 from 2026-01-01T00:00:00Z"},
		{record(0, 5, "1", "2"), "", "--workload: must be given, one of shop/web0, shop/web1"},
		{record(0, 5, "1", "2"), "shop/other", `--workload: must be one of shop/web0, shop/web1, was "shop/other"`},
		{record(0, 5), "", "x: must have measured requests a second of a workload; the journal has of no workload"},
		{record(0, 5, "1") + record(2, 5, "1"), "", "x of shop/web0: d-1: must be in the minute after that of the one before, 2026-01-01T00:01:00Z; " +
			"what was not measured is not made up: play the lines before it, or from it on"},
	} {
		if !isJournal([]byte(c.text)) {
			t.Errorf("%s is taken for something else", c.text)
		}
		load, err := journalLoad("x", []byte(c.text), c.workload)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%v %s from %s", load.Counts, load.Name, load.from.Format("2006-01-02T15:04:05Z07:00"))
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
	}
	for _, text := range []string{"", "minute,count\n0,5\n", `{"data":{"result":[]}}`, "{}"} {
		if isJournal([]byte(text)) {
			t.Errorf("%q is taken for a journal", text)
		}
	}
}

// What is read from standard input is what may be in a file.
func TestStandardInputIsReadAsAFileIs(t *testing.T) {
	const journal = `{"id":"d-1","time":"2026-01-01T00:00:05Z","workloads":[{"workload":"shop/web","inputs":{"arrivals":1}}]}` + "\n" +
		`{"id":"d-2","time":"2026-01-01T00:01:05Z","workloads":[{"workload":"shop/web","inputs":{"arrivals":2}}]}` + "\n"
	const dates = "Time,web\n2026-01-01 00:00:00,1\n2026-01-01 00:01:00,2\n2026-01-01 00:02:00,3\n"
	const utc = "note: --trace: the dates of standard input have no zone and are taken for UTC\n"
	for _, c := range []struct {
		text        string
		skip        time.Duration
		want, notes string
	}{
		{journal, 0, "[60 120] from 2026-01-01T00:00:00Z", ""},
		{dates, 0, "[60 120 180] from 2026-01-01T00:00:00Z", utc},
		{dates, time.Minute, "[120 180] from 2026-01-01T00:01:00Z", utc},
		{"\ufeffminute,count\r\n0,5\r\n1,6\r\n", 0, "[5 6] from 0001-01-01T00:00:00Z", ""},
		{"\ufeffsep=,\r\n\"Time\",\"web\"\r\n1767225600000,2\r\n1767225660000,3\r\n", 0, "[120 180] from 2026-01-01T00:00:00Z", ""},
		{"1767225600,1\n1767225630,2\n", 0, "--trace: standard input: must have 2 minutes at least, had 1", ""},
		{"1767225600,1\n1767225610,2\n", 0, "--trace: standard input: must have 2 minutes at least, had 0", ""},
	} {
		var notes strings.Builder
		q := loadQuestion{trace: "-", skip: c.skip}
		load, err := q.read(t.Context(), &cli.Env{Stdin: strings.NewReader(c.text), Stderr: &notes}, 1)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%v from %s", load.Counts, load.from.Format(time.RFC3339))
		}
		if got != c.want || notes.String() != c.notes {
			t.Errorf("%q: got %q and notes %q, want %q and %q", c.text, got, notes.String(), c.want, c.notes)
		}
	}
}
