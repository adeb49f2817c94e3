package pvesim

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
)

// The faults in the document are read, and a cluster lives with them; the document has every form
// and selector.
func TestFaultsInTheDocumentAreAccepted(t *testing.T) {
	text, err := os.ReadFile("../../docs/emulator.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(text), "```faults\n")
	example, _, ends := strings.Cut(rest, "\n```\n")
	if !begins || !ends {
		t.Fatal("the document shows no faults")
	}
	l := newLab(t, nil)
	l.inject(example)
	l.Advance(11 * time.Hour)
	if s := l.tell("GET /nodes"); s.status != "200 OK" {
		t.Errorf("after a day's faults a host says %s", s.status)
	}
	for _, selector := range faults.Selectors() {
		name, _, _ := strings.Cut(selector.Form, "=")
		if !strings.Contains(example, " "+name+"=") {
			t.Errorf("no fault shows %s", selector.Form)
		}
	}
	for name := range faults.Tasks {
		if !strings.Contains(string(text), name) {
			t.Errorf("the task %s is not named", name)
		}
	}
}
