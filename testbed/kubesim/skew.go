package kubesim

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A process whose wall clock is ahead writes times that are ahead. In virtual time all processes
// have one clock, so that the times in leases are shifted on their way.

// shiftBody shifts the times that a client writes.
func (c *Client) shiftBody(q *request) {
	if ahead := time.Duration(c.ahead.Load()); ahead != 0 && q.table.Resource == "leases" {
		q.body = shifted(q.body, ahead)
	}
}

// shiftAnswer shifts the times that a client reads.
func (c *Client) shiftAnswer(q *request, a *answer) {
	if ahead := time.Duration(c.ahead.Load()); ahead != 0 && q.table.Resource == "leases" {
		a.body = shifted(a.body, -ahead)
	}
}

func shifted(text []byte, by time.Duration) []byte {
	raw := map[string]any{}
	if json.Unmarshal(text, &raw) != nil {
		return text
	}
	spec, _ := raw["spec"].(map[string]any)
	for _, key := range []string{"renewTime", "acquireTime"} {
		at, _ := spec[key].(string)
		if t, err := time.Parse(metav1.RFC3339Micro, at); err == nil {
			spec[key] = t.Add(by).UTC().Format(metav1.RFC3339Micro)
		}
	}
	out, err := json.Marshal(raw)
	if err != nil {
		return text
	}
	return out
}
