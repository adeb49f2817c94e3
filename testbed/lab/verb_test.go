//go:build lab

package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/lab"
)

// binary builds the program that people bring labs up with.
func binary(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plimsoll")
	if out, err := exec.Command("go", "build", "-o", file, "github.com/plimsoll/plimsoll/cmd/plimsoll").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// verb runs a verb and returns what it prints and exits with.
func verb(t *testing.T, program string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(program, append([]string{"testbed", "lab"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), code
}

// A lab that was brought up by the verb outlives it, is found by others, and goes without a trace,
// whether it is taken down or its process is killed.
func TestLabOutlivesTheVerbThatBroughtItUp(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	program, data := binary(t), t.TempDir()
	t.Cleanup(func() { _, _, _ = verb(t, program, "down", "--data", data) })
	up := func() *lab.Report {
		t.Helper()
		out, errs, code := verb(t, program, "up", "--data", data, "--parts", "kwok", "-o", "json")
		var r lab.Report
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || !r.Ready {
			t.Fatalf("up exits with %d and says\n%s%s(%v)", code, out, errs, err)
		}
		if !strings.Contains(errs, "controlplane is up after ") {
			t.Errorf("it does not say how far it is:\n%s", errs)
		}
		return &r
	}

	r := up()
	if _, errs, code := verb(t, program, "up", "--data", data); code != 1 || !strings.Contains(errs, "a lab is up in "+data) {
		t.Errorf("a second up exits with %d and says\n%s", code, errs)
	}
	out, _, code := verb(t, program, "status", "--data", data)
	if code != 0 || !strings.Contains(out, fmt.Sprintf("kwok          up     %d", r.Parts[1].PID)) {
		t.Errorf("status exits with %d and says\n%s", code, out)
	}
	if err := syscall.Kill(r.Parts[1].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "status tells of a part that has ended", func(context.Context) error {
		if out, errs, code := verb(t, program, "status", "--data", data); code != 1 || !strings.Contains(errs, "kwok has ended: process") {
			return fmt.Errorf("it exits with %d and says\n%s%s", code, out, errs)
		}
		return nil
	})
	out, errs, code := verb(t, program, "down", "--data", data)
	if code != 0 || out != "stopped controlplane\n" {
		t.Errorf("down exits with %d and says\n%s%s", code, out, errs)
	}
	expectGone(t, r)

	r = up()
	if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	expectGone(t, r)
	if _, _, code := verb(t, program, "status", "--data", data); code != 4 {
		t.Errorf("status of a lab that was killed exits with %d, want 4", code)
	}
	up()
	if out, _, code := verb(t, program, "down", "--data", data, "--wipe"); code != 0 || out != "stopped kwok\nstopped controlplane\nremoved "+data+"\n" {
		t.Errorf("down exits with %d and says\n%s", code, out)
	}
}

// expectGone wants no process of the lab to be left.
func expectGone(t *testing.T, r *lab.Report) {
	t.Helper()
	pids := []int{r.PID}
	for _, p := range r.Parts {
		pids = append(pids, p.PID)
	}
	eventually(t, "the processes are gone", func(context.Context) error {
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				return fmt.Errorf("process %d is there", pid)
			}
		}
		return nil
	})
}
