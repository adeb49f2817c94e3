package pve

import (
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// poolHealth is how a pool's machines have fared of late.
type poolHealth struct {
	failures int       // since the last success
	cramped  int       // of these, those for lack of room, which passes by itself
	last     time.Time // the last of them
	why      nodescaler.Reason
}

// The pause after a failure doubles with each in a row.
const (
	firstPause = time.Minute
	maxPause   = 30 * time.Minute
)

// blamed reports whether a failure says something about its pool. What others did to the machine,
// and what another configuration led to, does not.
func (i *Intent) blamed(recipe string) bool {
	if i.Failed == nil || i.Pardoned || i.Recipe != recipe {
		return false
	}
	return !slices.Contains([]string{CodeVanished, CodeUnfinished, CodePoolAtMax}, i.Failed.Code)
}

// health is read off the intents, so that it outlives the process without being kept.
func (f *Fleet) health(p *Pool) poolHealth {
	var success time.Time
	for _, m := range f.machines {
		if m.Pool == p.Name && m.Joined.After(success) {
			success = m.Joined
		}
	}
	var h poolHealth
	for _, m := range f.machines {
		if m.Pool != p.Name || !m.blamed(f.recipe[p.Name]) || !m.FailedAt.After(success) {
			continue
		}
		h.failures++
		if slices.Contains(scarce, m.Failed.Code) {
			h.cramped++
		}
		if m.FailedAt.After(h.last) {
			h.last, h.why = m.FailedAt, *m.Failed
		}
	}
	return h
}

// closed says why the pool takes no orders now, or nil.
func (h poolHealth) closed(p *Pool, now time.Time) *nodescaler.Reason {
	if h.failures == 0 {
		return nil
	}
	if broken := h.failures - h.cramped; broken >= p.MaxFailures {
		return no(CodePoolPaused, "%d machines of pool %s failed in a row, the last because %s: %s; change its configuration or resume it",
			broken, p.Name, h.why.Code, h.why.Text)
	}
	until := h.last.Add(min(firstPause<<min(h.failures-1, 10), maxPause))
	if now.Before(until) {
		return no(CodePoolBackingOff, "%d machines of pool %s failed in a row; no more before %s", h.failures, p.Name, until.UTC().Format(time.TimeOnly))
	}
	return nil
}
