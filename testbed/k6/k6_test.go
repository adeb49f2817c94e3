package k6

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func paper() Load {
	return Load{URL: "http://127.0.0.1:8080/apps/default/web/", Kind: Sleep, Users: 60, Think: time.Second, Spread: time.Second, Duration: 30 * time.Minute, Target: 300 * time.Millisecond}
}

func TestFaultsOfLoadsAreToldByKeyRuleAndValue(t *testing.T) {
	for want, change := range map[string]func(*Load){
		"": func(*Load) {},
		`url: must be like http://127.0.0.1:8080/apps/default/web/, was "web"`: func(l *Load) { l.URL = "web" },
		`kind: must be one of [sleep pace open], was "fast"`:                   func(l *Load) { l.Kind = "fast" },
		`users: must be 1 to 5000, was 0`:                                      func(l *Load) { l.Users = 0 },
		`rate: must be greater than 0 for an open load, was 0`:                 func(l *Load) { l.Kind = Open },
		`think: must be greater than 0 for users, was 0s`:                      func(l *Load) { l.Think = 0 },
		`spread: must be 0 or more, was -1s`:                                   func(l *Load) { l.Spread = -time.Second },
		`duration: must be 1s or more, was 1ms`:                                func(l *Load) { l.Duration = time.Millisecond },
		`target: must be greater than 0, was 0s`:                               func(l *Load) { l.Target = 0 },
		`quantile: must be from 0 to below 1, was 90`:                          func(l *Load) { l.Quantile = 90 },
	} {
		l := paper()
		change(&l)
		got := ""
		if err := l.Validate(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The script is told everything, by names that it reads.
func TestTheScriptIsToldTheLoad(t *testing.T) {
	l := paper()
	var told []string
	for i, a := range l.arguments("out.json") {
		if i > 0 && l.arguments("out.json")[i-1] == "-e" {
			told = append(told, a)
		}
	}
	if diff := cmp.Diff([]string{
		"URL=http://127.0.0.1:8080/apps/default/web/", "KIND=sleep", "USERS=60", "RATE=0", "THINK=1", "SPREAD=1", "DURATION=1800", "TARGET=300", "QUANTILE=90", "SUMMARY=out.json",
	}, told); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var read []string
	for _, m := range regexp.MustCompile(`__ENV\.([A-Z]+)|number\('([A-Z]+)'`).FindAllStringSubmatch(string(Script), -1) {
		read = append(read, m[1]+m[2])
	}
	for _, e := range told {
		if name, _, _ := strings.Cut(e, "="); !slices.Contains(read, name) {
			t.Errorf("the script does not read %s", name)
		}
	}
	if len(read) != len(told) {
		t.Errorf("the script reads %v, and is told %v", read, told)
	}
}

func TestSummariesAreReadStrictly(t *testing.T) {
	s, err := readSummary([]byte(`{"seconds": 61, "requests": 4, "failed": 1, "good": 2, "minutes": [{"requests": 3, "failed": 1, "quantileMs": 500000100}, {"requests": 1, "failed": 0, "quantileMs": 90}]}`))
	if err != nil || !math.IsInf(s.Minutes[0].Quantile, 1) || s.Minutes[1].Quantile != 90 {
		t.Errorf("%+v, %v", s, err)
	}
	if f, known := s.GoodFraction(); f != 0.5 || !known {
		t.Errorf("%v, %v", f, known)
	}
	if _, known := (&Summary{}).GoodFraction(); known {
		t.Error("the share of nothing is known")
	}
	if _, err := readSummary([]byte(`{"requets": 4}`)); err == nil || err.Error() != `k6: summary: json: unknown field "requets"` {
		t.Error(err)
	}
}
