package pve

import (
	"fmt"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
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

// crampedFor is how long a lack of room says something. No number of them pauses a pool, so without
// an end as many would be kept as there are tries until there is room.
const crampedFor = 24 * time.Hour

// blamed reports whether a failure says something about its pool. What others did to the machine,
// and what another configuration led to, does not.
func (i *Intent) blamed(recipe string, now time.Time) bool {
	if i.Failed == nil || i.Pardoned || i.Recipe != recipe || i.cramped() && now.Sub(i.FailedAt) >= crampedFor {
		return false
	}
	return !slices.Contains([]string{CodeVanished, CodeUnfinished, CodePoolAtMax, CodeOtherCluster}, i.Failed.Code)
}

// cramped reports whether the machine failed for lack of room.
func (f *Failing) cramped() bool { return f.Failed != nil && placement.Scarce(f.Failed.Code) }

// successes are when machines last joined, by pool.
func (ro *roster) successes() map[string]time.Time {
	last := map[string]time.Time{}
	for _, m := range ro.machines {
		if m.Joined.After(last[m.Pool]) {
			last[m.Pool] = m.Joined
		}
	}
	return last
}

// pardon has what failed before its pool's last success count no more. That is written down: the
// success is forgotten once its machine is gone, and the failures would be in a row again.
func (st *settler) pardon(all []*tracked) {
	successes := st.roster.successes()
	for _, m := range all {
		if m.busy || m.Failed == nil || m.Pardoned || m.FailedAt.After(successes[m.Pool]) {
			continue
		}
		m.Pardoned = true
		_ = st.records.keep(m) // noted there, and kept again before the next move
	}
}

// health is read off the intents, so that it outlives the process without being kept.
func (in *intake) health(p *settings.Pool, now time.Time) poolHealth {
	success := in.roster.successes()[p.Name]
	var h poolHealth
	for _, m := range in.roster.machines {
		if m.Pool != p.Name || !m.blamed(in.catalogue.recipe[p.Name], now) || !m.FailedAt.After(success) {
			continue
		}
		h.failures++
		if m.cramped() {
			h.cramped++
		}
		if m.FailedAt.After(h.last) {
			h.last, h.why = m.FailedAt, *m.Failed
		}
	}
	return h
}

// closed says why the pool takes no orders now, or nil.
func (h poolHealth) closed(p *settings.Pool, now time.Time) *nodescaler.Reason {
	if h.failures == 0 {
		return nil
	}
	if broken := h.failures - h.cramped; broken >= p.MaxFailures {
		return no(CodePoolPaused, "pool %s makes no more: %s in a row, the last because %s: %s; it takes orders again once its configuration is another one, be it only in maxFailures",
			p.Name, failed(broken), h.why.Code, h.why.Text)
	}
	until := h.last.Add(min(firstPause<<min(h.failures-1, 10), maxPause))
	if now.Before(until) {
		return no(CodePoolBackingOff, "pool %s waits until %s UTC: %s in a row, the last because %s: %s", p.Name, until.UTC().Format(time.TimeOnly),
			failed(h.failures), h.why.Code, h.why.Text)
	}
	return nil
}

// failed says how many machines have.
func failed(n int) string {
	if n == 1 {
		return "1 machine failed"
	}
	return fmt.Sprintf("%d machines failed", n)
}

// noRoom reports whether what is wrong with the machine is a lack of room.
func (m *tracked) noRoom() bool {
	if m.Failed != nil {
		return m.cramped()
	}
	return placement.Scarce(m.problem.Code)
}

// failedFor is the code of a machine that could not be made for an error, however often it was
// tried.
func failedFor(err error) string {
	switch pveapi.ClassOf(err) {
	case pveapi.StorageFull:
		return placement.CodeStorageFull
	case pveapi.MemoryFull:
		return placement.CodeNoMemory
	default:
		return CodeMachineFailed
	}
}
