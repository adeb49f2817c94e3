//go:build guest

package guests

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// spoilt is how a guest fails.
type spoilt struct {
	machines func(*Machines) // before it starts
	line     string          // of sh, that it runs
	prints   string          // what comes of that; nothing is that its agent falls silent
	says     []string        // what is reported when it has not joined in time
	console  string          // what the machine has printed in the end
}

const silence = "QEMU guest agent is not running"

var (
	hangs  = spoilt{line: "kill -STOP $PPID", says: []string{silence}}
	panics = spoilt{line: "echo c > /proc/sysrq-trigger", says: []string{silence}, console: "Kernel panic"}
)

// What ails a machine that never joins is reported, as far as it is seen from outside, and the
// machine is stopped and destroyed.
func TestAMachineWhoseGuestFailsIsDestroyed(t *testing.T) {
	t.Log("by emulation this takes two and a half minutes")
	image := tiny(t)
	for name, s := range map[string]spoilt{
		"its agent hangs":   hangs,
		"its kernel panics": panics,
		"its disk is full":  {line: "/bin/busybox dd if=/dev/zero of=/dev/sda bs=1M seek=2047 count=2", prints: "No space left on device", says: []string{"agent: interfaces"}},
		"its disk's storage is full": {
			machines: func(g *Machines) { g.roomless = true }, line: "echo x > /dev/sda; /bin/busybox sync", says: []string{"QEMU: io-error", silence},
		},
		"it finds no disc": {
			machines: func(g *Machines) { g.discless = true }, line: "/bin/busybox ls /seed/user-data", prints: "No such file", says: []string{"agent: interfaces"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Image: image}, pool())
			w.deaf = true
			if s.machines != nil {
				s.machines(w.machines)
			}
			name, id := w.begins()
			w.answers(id)
			w.spoil(id, &s)
			w.until("it has failed", func() bool { w.ahead.Add(int64(30 * time.Second)); return w.machine(name).Phase == nodescaler.Failed })
			w.until("it is reported, with what is seen of it", func() bool {
				return w.reports(pvecode.JoinTimeout) && !slices.ContainsFunc(s.says, func(text string) bool { return !w.reports(text) })
			})
			w.goes(name, id, &s)
		})
	}
}

// A machine that has joined goes when it is returned, also if its guest does not obey: without an
// agent it hears its power button, and after a panic it is stopped.
func TestAMachineWhoseGuestHangsGoes(t *testing.T) {
	t.Log("by emulation this takes a minute")
	image := tiny(t)
	obeys := hangs
	obeys.console = "the power button was pressed"
	for name, s := range map[string]spoilt{"its agent hangs": obeys, "its kernel panics": panics} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Config{Image: image}, pool())
			name, id := w.order()
			w.spoil(id, &s)
			if m := w.machine(name); m.Phase != nodescaler.Joined {
				t.Errorf("it is %s", m.Phase)
			}
			w.goes(name, id, &s)
		})
	}
}

// spoil has a guest fail. What makes its agent silent begins when that has answered.
func (w *world) spoil(id int, s *spoilt) {
	w.Helper()
	if s.prints == "" {
		w.runs(id, "/bin/busybox", "sh", "-c", "(/bin/busybox sleep 1; "+s.line+") > /dev/null 2>&1 &")
		w.until("its agent is silent", func() bool { _, err := w.client.VM("pve1", id).AgentInterfaces(w.Context()); return err != nil })
		return
	}
	if out, code, err := w.shell.Run(w.Context(), id, "/bin/busybox", "sh", "-c", s.line); !strings.Contains(out, s.prints) || code == 0 || err != nil {
		w.Errorf("%s prints %q and ends with %d, %v", s.line, out, code, err)
	}
}

// goes returns the machine, and looks at what it has printed.
func (w *world) goes(name string, id int, s *spoilt) {
	w.Helper()
	w.returns(name, id)
	if text := must.Get(os.ReadFile(w.machines.Console(id)))(w); !strings.Contains(string(text), s.console) {
		w.Errorf("it printed\n%s", text)
	}
}

// reports reports whether it was said that a machine has failed, and something of it.
func (w *world) reports(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.events, func(e pve.Event) bool { return e.Code == pvecode.MachineFailed && strings.Contains(e.Text, text) })
}
