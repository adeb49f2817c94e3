package intents

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// What is kept is flat, whichever part of the intent it is in, and stays readable.
func TestIntentIsKeptUnderTheSameKeys(t *testing.T) {
	kept := `{
		"order": "o-1", "pool": "web", "name": "web-o-1", "shape": {"name": "small", "cpu": 2000, "memory": 4096}, "host": "pve1",
		"vmid": 1001, "created": "2026-01-01T00:00:00Z", "why": "PodsPending", "cluster": "uid", "providerID": "proxmox://home/1001",
		"lostIDs": ["proxmox://home/1000"], "step": "joined", "since": "2026-01-01T00:00:00Z", "last": "UPID",
		"task": {"upid": "UPID", "kind": "clone", "host": "pve1", "at": "2026-01-01T00:00:00Z"}, "joined": "2026-01-01T00:00:00Z",
		"vmids": {"first": 1000, "last": 1999}, "pvePool": "plimsoll", "asked": "2026-01-01T00:00:00Z", "spent": [1000], "mac": "BC:24:11:00:00:01",
		"disc": "local:iso/a.iso", "discHost": "pve1", "devices": {"scsi0": "local-lvm:vm-1001-disk-0"}, "settings": "0123", "original": "9000@01",
		"recipe": "4567", "adopted": true, "running": true,
		"returned": "2026-01-01T00:00:00Z", "forced": true, "undrained": "2026-01-01T00:00:00Z", "frozen": "2026-01-01T00:00:00Z",
		"silent": true, "resumed": "2026-01-01T00:00:00Z", "exit": "stop", "gone": "2026-01-01T00:00:00Z", "nodeGone": true,
		"keep": true, "stashed": "2026-01-01T00:00:00Z", "woken": "2026-01-01T00:00:00Z", "rejoined": "2026-01-01T00:00:00Z", "misses": 2,
		"failed": {"code": "JoinTimeout", "text": "it is no node"}, "failedAt": "2026-01-01T00:00:00Z", "pardoned": true,
		"hints": ["the console"], "held": {"code": "Quarantined", "text": "it is another's"}
	}`
	keys := func(data []byte) (keys map[string]any) {
		must.Do(t, json.Unmarshal(data, &keys))
		return keys
	}
	var i Intent
	must.Do(t, json.Unmarshal([]byte(kept), &i))
	if d := cmp.Diff(keys([]byte(kept)), keys(must.Get(json.Marshal(i))(t))); d != "" {
		t.Errorf("what is kept again, -was +is:\n%s", d)
	}
}
