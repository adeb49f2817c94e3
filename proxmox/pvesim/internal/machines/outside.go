package machines

import (
	"encoding/base64"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// pretended are calls whose effect on machines that run outside would only be pretended.
var pretended = strings.Fields("POST/snapshot POST/snapshot/{snapname}/rollback POST/move_disk POST/migrate POST/status/suspend " +
	"GET/agent/file-read POST/agent/file-write POST/agent/set-user-password")

// Serves refuses calls that are not served for machines that run outside.
func Serves(c *world.World, e *api.Endpoint) error {
	if c.Config.Guests != nil && slices.Contains(pretended, e.Method+strings.TrimPrefix(e.Path, onVM)) {
		return &failure.Error{Status: 501, Reason: "not emulated for guests that are real"}
	}
	return nil
}

// monitor has the machine's QEMU do something, if it runs outside.
func monitor(j *world.Errand, m *world.Guest, command string, arguments map[string]any) error {
	out := m.Outside
	if out == nil {
		return nil
	}
	if err := j.World.Beside(j.Process, func() error { _, err := out.Monitor(command, arguments); return err }); err != nil {
		return failure.New("VM %d qmp command '%s' failed - %s", m.ID, command, err)
	}
	return nil
}

// up waits until the machine's process is there, if it runs outside.
func up(j *world.Errand, m *world.Guest) error {
	if out := m.Outside; out != nil {
		if err := j.World.Beside(j.Process, out.Up); err != nil {
			j.Print("%s", err)
			return failure.New("start failed: QEMU exited with code 1")
		}
	}
	return nil
}

// eject takes the disc out of a drive of a machine that runs outside. Another disc or disk would
// only be seen when the machine starts again.
func eject(j *world.Errand, m *world.Guest, key string, value *string) error {
	before := vmconf.ParseDrive(m.Conf[key])
	switch {
	case m.Outside == nil:
		return nil
	case !before.CDROM() || value != nil && vmconf.ParseDrive(*value).File != "none":
		return failure.New("not emulated while a real guest runs")
	}
	return monitor(j, m, "eject", map[string]any{"device": key, "force": true})
}

// agent asks the agent of a guest that runs outside.
func (k *call) agent(m *world.Guest, command string, arguments map[string]any) (any, error) {
	var answer any
	out := m.Outside
	ask := func() (err error) { answer, err = out.Agent("guest-"+command, arguments); return err }
	if err := k.World.Beside(k.Process, ask); err != nil {
		return nil, failure.New("Agent error: %s", err)
	}
	return answer, nil
}

// hears reports whether the agent of a guest outside answers now.
func (k *call) hears(m *world.Guest) bool {
	out := m.Outside
	return k.World.Beside(k.Process, func() error { _, err := out.Agent("guest-ping", nil); return err }) == nil
}

// runState is what QEMU says that a machine outside does, such as running or io-error.
func (k *call) runState(m *world.Guest) any {
	var answer any
	out := m.Outside
	ask := func() (err error) { answer, err = out.Monitor("query-status", nil); return err }
	if err := k.World.Beside(k.Process, ask); err != nil {
		return m.State
	}
	said, _ := answer.(map[string]any)
	return said["status"]
}

// run has the agent of a guest outside run a program.
func (k *call) run(m *world.Guest) (any, error) {
	command := strings.Split(k.In["command"], "\x00")
	return k.agent(m, "exec", map[string]any{
		"path": command[0], "arg": command[1:], "capture-output": true, "input-data": base64.StdEncoding.EncodeToString([]byte(k.In["input-data"])),
	})
}

// outcome is what came of a program that run has started.
func (k *call) outcome(m *world.Guest) (any, error) {
	answer, err := k.agent(m, "exec-status", map[string]any{"pid": k.In.Int("pid", 0)})
	said, _ := answer.(map[string]any)
	for key, value := range said {
		switch value := value.(type) {
		case bool:
			said[key] = world.Number(value)
		case string:
			if text, err := base64.StdEncoding.DecodeString(value); err == nil && strings.HasSuffix(key, "-data") {
				said[key] = string(text)
			}
		}
	}
	return said, err
}
