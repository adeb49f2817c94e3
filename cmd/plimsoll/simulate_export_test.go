package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestExportsOfRatesAreLoads(t *testing.T) {
	for text, want := range map[string]string{
		"minute,count\n0,5\n1,6\n": "not an export",
		"0,5\n1,6\n":               "not an export",
		"Time,Value\n1767225600000,2\n1767225660000,3\n":                                                                              "[120 180] from 2026-01-01T00:00:00Z",
		"\"Time\",\"web\"\n2026-01-01 00:00:00,1\n2026-01-01 00:00:30,2\n2026-01-01 00:01:00,3\n2026-01-01 00:01:30,4\n":              "[90 210] from 2026-01-01T00:00:00Z",
		"1767225600,1\n1767225720,2\n":                                                                                                "[60 60 120 120] from 2026-01-01T00:00:00Z",
		`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1767225600,"1.5"],[1767225660,"2"]]}]}}`: "[90 120] from 2026-01-01T00:00:00Z",
		`{"data":{"result":[]}}`:                     "x: data.result: must be one series, such as that of sum(rate(...)), was 0",
		"1767225600,1\n1767225660,2\n1767225780,2\n": "x: line 3: must be 1m0s after the one before, was 2m0s: what was not measured is not made up",
		"1767225600,1\n1767225660,-2\n":              "x: line 2: the rate must be 0 or more, was -2",
		"1767225600,1\n1767225660,NaN\n":             "x: line 2: the rate must be 0 or more, was NaN",
		"1767225600,1\n1767225643,2\n":               "x: line 2: rates must be apart by a part of a minute or by whole minutes, was 43s",
		"Time,a,b\n1767225600,1,2\n":                 `x: line 2: must be a time and a rate, of one series, was "1767225600,1,2"`,
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
