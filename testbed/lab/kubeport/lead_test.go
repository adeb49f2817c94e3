//go:build lab

package kubeport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

// TestMain lets this program be another leader, in a process of its own.
func TestMain(m *testing.M) {
	kube.LogTo(slog.New(slog.DiscardHandler))
	if kubeconfig := os.Getenv("KUBEPORT_LEAD"); kubeconfig != "" {
		if err := leadAndWrite(kubeconfig); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// leadAndWrite leads, and writes as often as it can: it marks a node and takes the mark back.
func leadAndWrite(kubeconfig string) error {
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS = -1
	c, err := kube.New(kube.Config{REST: as(cfg, otherUser), Mode: kube.Active, Namespace: "plimsoll", Lease: "plimsoll"})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	err = c.Lead(ctx, "other", func(ctx context.Context) {
		fmt.Println("leads")
		// Beyond the end of the lead on purpose: the port has to refuse.
		for i, refused := 0, 0; refused < 50; i++ {
			if err := c.SetDraining(context.WithoutCancel(ctx), "n-1", i%2 == 0); errors.Is(err, kube.ErrNotLeader) {
				refused++
				time.Sleep(10 * time.Millisecond)
			}
		}
		fmt.Println("refused")
		<-ctx.Done() // which comes when the lease is found lost
	})
	fmt.Println("lost", errors.Is(err, kube.ErrNotLeader))
	return nil
}

func TestLeadGoesFromHandToHand(t *testing.T) {
	w := newWorld(t, lab.ControlPlane{})
	w.node("n-1", "workers")
	one, two := w.cluster(kube.Config{Mode: kube.Recommend}), w.cluster(kube.Config{Mode: kube.Active})
	ctx, cancel := context.WithCancel(t.Context())
	led, ended := make(chan struct{}), make(chan error, 1)
	working := true
	go func() {
		ended <- one.Lead(ctx, "one", func(ctx context.Context) {
			close(led)
			<-ctx.Done()
			time.Sleep(time.Second) // work takes time to end; no other client leads meanwhile
			if two.Leading() {
				t.Error("two led while one was at work")
			}
			working = false
		})
	}()
	<-led
	if !one.Leading() || two.Leading() {
		t.Error("not one leads alone")
	}
	if err := two.SetDraining(t.Context(), "n-1", true); !errors.Is(err, kube.ErrNotLeader) {
		t.Errorf("the other: %v", err)
	}
	cancel()
	began := time.Now()
	w.lead(two, "two")
	t.Logf("the next leads %s after the first was told to stop", time.Since(began).Round(time.Millisecond))
	if err := <-ended; err != nil || working || one.Leading() {
		t.Errorf("the first ended with %v, at work %v, leading %v", err, working, one.Leading())
	}
	if err := two.SetDraining(t.Context(), "n-1", true); err != nil {
		t.Error(err)
	}
	if err := one.Lead(t.Context(), "", func(context.Context) {}); err == nil {
		t.Error("led without an identity")
	}
}

// A process that is stopped knows nothing of the time that passes, and goes on where it was.
func TestStoppedLeaderWritesNothingWhenItGoesOn(t *testing.T) {
	w := newWorld(t, lab.ControlPlane{})
	w.node("n-1", "workers")
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), "KUBEPORT_LEAD="+w.lab.Kubeconfig())
	child.Stderr = os.Stderr
	said, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Process.Kill() }) // also when it is stopped
	lines := bufio.NewScanner(said)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the other process says %q, want %q", lines.Text(), want)
		}
	}
	says("leads")
	w.until("it writes", func(context.Context) error {
		if n := len(w.patches(otherUser)); n < 5 {
			return fmt.Errorf("%d times", n)
		}
		return nil
	})
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c := w.cluster(kube.Config{Mode: kube.Active})
	w.lead(c, "this")
	took := time.Now()
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	says("refused")
	says("lost true")
	if err := child.Wait(); err != nil {
		t.Error(err)
	}
	if !c.Leading() {
		t.Error("the lead went back")
	}
	if err := c.SetDraining(t.Context(), "n-1", true); err != nil {
		t.Error(err)
	}
	for _, r := range w.patches(otherUser) {
		if r.RequestReceivedTimestamp.After(took) && r.ResponseStatus.Code < 300 {
			t.Errorf("the old leader wrote %s after the new one led: %s", r.RequestReceivedTimestamp.Sub(took), r.RequestURI)
		}
	}
}

// patches are what a user wrote to nodes.
func (w *world) patches(of string) []request {
	var all []request
	for _, r := range w.requests(of) {
		if r.Verb == "patch" && r.ObjectRef.Resource == "nodes" {
			all = append(all, r)
		}
	}
	return all
}
