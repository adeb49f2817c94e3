package podscaler

import (
	"encoding/json"
	"testing"
	"time"
)

func TestDurationIsReadAndWrittenWithItsUnit(t *testing.T) {
	var d Duration
	if err := json.Unmarshal([]byte(`"90s"`), &d); err != nil || time.Duration(d) != 90*time.Second {
		t.Fatalf("%v, %v", d, err)
	}
	if out, err := json.Marshal(d); err != nil || string(out) != `"1m30s"` {
		t.Fatalf("%s, %v", out, err)
	}
	err := json.Unmarshal([]byte(`"90"`), &d)
	if err == nil || err.Error() != `must be a duration such as 30s or 5m, was "90"` {
		t.Fatalf("error %v", err)
	}
	err = json.Unmarshal([]byte(`"1d"`), &d)
	if err == nil || err.Error() != `must be a duration such as 30s or 5m, in ms, s, m or h, was "1d"` {
		t.Fatalf("error %v", err)
	}
}
