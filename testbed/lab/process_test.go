package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// TestMain lets the test be a process that starts another and waits to be killed.
func TestMain(m *testing.M) {
	if data := os.Getenv("LAB_TEST_PARENT"); data != "" {
		parent(data)
	}
	os.Exit(m.Run())
}

// parent starts a process as a lab does, and says which.
func parent(data string) {
	r, err := sleeper().Start(context.Background(), &Lab{data: data}, "sleeper")
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(r.PID)
	select {}
}

func sleeper() *Process { return &Process{Path: "sleep", Args: []string{"300"}} }

func shell(script string) *Process { return &Process{Path: "sh", Args: []string{"-c", script}} }

// gone waits until there is no such process.
func gone(pid int) bool {
	for range 1000 {
		if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

func TestProcessesEndWithTheirLabHoweverItEnds(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("other systems do not tell a process that its parent is gone")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LAB_TEST_PARENT="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, scanned := fmt.Fscan(out, &pid)
	err = errors.Join(scanned, cmd.Process.Kill())
	_ = cmd.Wait() // killed
	if err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Errorf("process %d outlived the one that started it", pid)
	}
}

func TestProcessThatEndsBeforeItAnswersSaysWhy(t *testing.T) {
	p := shell("echo from an earlier start")
	l := &Lab{data: t.TempDir()}
	earlier, err := p.Start(t.Context(), l, "part")
	if err != nil {
		t.Fatal(err)
	}
	for range earlier.Ended { // until nothing more comes of it
	}
	never := errors.New("not yet")
	p = shell("echo the hold is full >&2; exit 3")
	p.Answers = func(context.Context) error { return never }
	_, err = p.Start(t.Context(), l, "part")
	want := "it ended before it answered: exit status 3\n  the last lines of " + l.Log("part") + ":\n  the hold is full"
	if err == nil || !strings.HasPrefix(err.Error(), "it ended before it answered: exit status 3\n") || !strings.HasSuffix(err.Error(), "the hold is full") {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestProcessThatNeverAnswersIsEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	p := sleeper()
	var asked int
	p.Answers = func(context.Context) error {
		if asked++; asked == 3 {
			cancel(errors.New("patience is at an end"))
		}
		return errors.New("not yet")
	}
	_, err := p.Start(ctx, &Lab{data: t.TempDir()}, "part")
	if fmt.Sprint(err) != "patience is at an end\nnot yet" {
		t.Errorf("got %v", err)
	}
}

func TestProcessThatWillNotStopIsKilled(t *testing.T) {
	l := &Lab{data: t.TempDir()}
	p := shell("trap '' TERM; echo deaf; while :; do sleep 0.05; done")
	p.Answers = func(context.Context) error { return said(l, "deaf") }
	r := must.Get(p.Start(t.Context(), l, "part"))(t)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := r.Stop(ctx); err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(r.PID)+" did not stop and was killed") {
		t.Errorf("stop: %v, want it said that it was killed", err)
	}
	if !gone(r.PID) {
		t.Error("it is still there")
	}
	if err, open := <-r.Ended; open {
		t.Errorf("it is told that it ended by itself: %v", err)
	}
}

func TestProcessIsStoppedInGoodOrder(t *testing.T) {
	l := &Lab{data: t.TempDir()}
	p := shell("trap 'echo farewell; exit 0' TERM; echo listening; while :; do sleep 0.05; done")
	p.Answers = func(context.Context) error { return said(l, "listening") }
	r := must.Get(p.Start(t.Context(), l, "part"))(t)
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := said(l, "farewell"); err != nil {
		t.Error(err)
	}
}

// said is whether a word is in the part's log.
func said(l *Lab, word string) error {
	text, err := os.ReadFile(l.Log("part"))
	if err == nil && !strings.Contains(string(text), word) {
		err = fmt.Errorf("it has not said %s", word)
	}
	return err
}

func TestEndOfAProcessIsTold(t *testing.T) {
	r := must.Get(shell("exit 5").Start(t.Context(), &Lab{data: t.TempDir()}, "part"))(t)
	if err := <-r.Ended; err == nil || !strings.HasSuffix(err.Error(), "exit status 5") {
		t.Errorf("got %v, want exit status 5", err)
	}
	if err := errors.Join(r.Stop(t.Context()), r.Kill()); err != nil {
		t.Errorf("to stop it then: %v", err)
	}
}
