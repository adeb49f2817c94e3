// Package cron compares when our cron expressions come with the library that Kubernetes' CronJobs
// and KEDA's triggers read theirs by.
package cron

import (
	"fmt"
	"strings"
	"testing"
	"time"

	robfig "github.com/robfig/cron/v3"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/podscaler"
)

// part draws a star, a value or a range, with or without a step.
func part(t *rapid.T, low, high int) string {
	from := rapid.IntRange(low, high).Draw(t, "from")
	text := rapid.SampledFrom([]string{"*", fmt.Sprint(from), fmt.Sprintf("%d-%d", from, rapid.IntRange(from, high).Draw(t, "to"))}).Draw(t, "values")
	if rapid.Bool().Draw(t, "stepped") {
		text += fmt.Sprintf("/%d", rapid.IntRange(1, high).Draw(t, "step"))
	}
	return text
}

func field(t *rapid.T, low, high int) string {
	parts := make([]string, rapid.IntRange(1, 2).Draw(t, "parts"))
	for i := range parts {
		parts[i] = part(t, low, high)
	}
	return strings.Join(parts, ",")
}

// What Kubernetes reads comes at the same times here.
func TestExpressionsComeAsInKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join([]string{field(t, 0, 59), field(t, 0, 23), field(t, 1, 31), field(t, 1, 12), field(t, 0, 6)}, " ")
		theirs, err := robfig.ParseStandard(text)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Date(2026, 1, 1, 0, rapid.IntRange(0, 365*24*60).Draw(t, "minute"), 0, 0, time.UTC)
		next := theirs.Next(at)
		ours, err := podscaler.ParseCron(text)
		if err != nil || next.IsZero() {
			if err == nil || !next.IsZero() {
				t.Fatalf("%s: %v, and theirs comes at %s", text, err, next)
			}
			return
		}
		if last, _ := ours.Last(next, time.UTC); !last.Equal(next) {
			t.Fatalf("%s: theirs comes at %s, and ours last at %s", text, next, last)
		}
		if last, came := ours.Last(next.Add(-time.Second), time.UTC); came && last.After(at) {
			t.Fatalf("%s: after %s ours comes at %s, and theirs at %s", text, at, last, next)
		}
	})
}
