//go:build lab

package lab_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// client talks to a lab with all rights.
func client(t *testing.T, l *lab.Lab) kubernetes.Interface {
	t.Helper()
	return must.Get(kubernetes.NewForConfig(l.REST()))(t)
}

// eventually waits until there is no error any more.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	labtest.Until(t, what, 100*time.Millisecond, ask)
}

func TestNothingIsLeftWhenTheLabIsDown(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{Parts: []lab.Part{&lab.KWOK{}, &lab.Prometheus{}}})
	before := l.Status()
	labtest.Down(t, l)
	for _, part := range before {
		if part.PID == 0 || part.State != lab.StateUp {
			t.Errorf("%s was %s as process %d, want it up as a process of its own", part.Name, part.State, part.PID)
		}
		if err := syscall.Kill(part.PID, 0); err != syscall.ESRCH {
			t.Errorf("%s: process %d is still there (%v)", part.Name, part.PID, err)
		}
		for _, e := range part.Endpoints {
			expectClosed(t, part.Name, e)
		}
	}
	for _, part := range l.Status() {
		if part.State != lab.StateStopped {
			t.Errorf("%s is %s, want it stopped", part.Name, part.State)
		}
	}
}

func expectClosed(t *testing.T, part string, e lab.Endpoint) {
	t.Helper()
	u := must.Get(url.Parse(e.URL))(t)
	if conn, err := net.DialTimeout("tcp", u.Host, time.Second); err == nil {
		_ = conn.Close()
		t.Errorf("%s: something still listens at %s", part, e.URL)
	}
}

func TestTwoLabsAtOnceKnowNothingOfEachOther(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	one, two := labtest.Up(t, lab.Config{}), labtest.Up(t, lab.Config{Data: t.TempDir()})
	if _, err := lab.Up(t.Context(), lab.Config{Data: one.Data()}); err == nil || !strings.Contains(err.Error(), "a lab is up in") {
		t.Errorf("a third lab in the folder of the first: %v, want it refused", err)
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "only-here"}}
	if _, err := client(t, one).CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client(t, two).CoreV1().Namespaces().Get(t.Context(), ns.Name, metav1.GetOptions{}); err == nil {
		t.Error("the other lab has the namespace, too")
	}
}

func TestObjectsOutliveRestartsOnTheSameFolder(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	data := t.TempDir()
	l := labtest.Up(t, lab.Config{Data: data})
	make := func(name string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := client(t, l).CoreV1().ConfigMaps("default").Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if _, err := client(t, l).CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{}); err != nil {
				t.Error(err)
			}
		}
	}
	address := l.Endpoint(lab.ControlPlanePart, "api")

	make("first")
	if err := l.Stop(t.Context(), lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context(), lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	expect("first")
	make("second")
	if err := l.Kill(lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	if err := l.Start(t.Context(), lab.ControlPlanePart); err != nil {
		t.Fatal(err)
	}
	expect("first", "second")
	if got := l.Endpoint(lab.ControlPlanePart, "api"); got != address {
		t.Errorf("the API server came back at %s, want it at %s where its clients look for it", got, address)
	}

	labtest.Down(t, l)
	l = labtest.Up(t, lab.Config{Data: data})
	expect("first", "second")
}

func TestPartThatEndsByItselfIsSeen(t *testing.T) {
	t.Parallel() // each has a lab of its own, and waits most of the time
	l := labtest.Up(t, lab.Config{Parts: []lab.Part{&lab.KWOK{}}})
	pid := l.Status()[1].PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "kwok is seen to have ended", func(context.Context) error {
		if s := l.Status()[1]; s.State != lab.StateEnded || !strings.Contains(s.Fault, strconv.Itoa(pid)) {
			return fmt.Errorf("it is %+v", s)
		}
		return nil
	})
	if err := l.Start(t.Context(), lab.KWOKPart); err != nil {
		t.Error(err)
	}
}
