package operator

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestTroubleThatGoesOnIsToldNowAndThen(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	var tr trouble
	for i := range 100 {
		tr.tell(log, fmt.Errorf("not followed for %ds", i), t0.Add(time.Duration(i)*time.Second))
	}
	tr.tell(log, errors.New("forbidden"), t0.Add(101*time.Second))
	tr.tell(log, nil, t0.Add(102*time.Second))
	tr.tell(log, nil, t0.Add(103*time.Second))
	if got := strings.Count(out.String(), "\n"); got != 4 {
		t.Errorf("%d lines, want one at once, one after a minute, one of what is new, and one of the end\n%s", got, out.String())
	}
}
