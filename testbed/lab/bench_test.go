//go:build lab

package lab_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// BenchmarkWorld says how long worlds take to come to life, and what memory that costs:
//
//	go test -tags lab -run '^$' -bench World -benchtime 1x -timeout 30m ./testbed/lab
func BenchmarkWorld(b *testing.B) {
	for _, size := range []struct{ nodes, pods int }{{20, 100}, {200, 1000}, {1000, 5000}} {
		b.Run(fmt.Sprintf("nodes=%d/pods=%d", size.nodes, size.pods), func(b *testing.B) {
			for b.Loop() {
				live(b, size.nodes, size.pods)
			}
		})
	}
}

func live(b *testing.B, nodes, pods int) {
	begun := time.Now()
	lap := func(what string) {
		b.ReportMetric(time.Since(begun).Seconds(), what)
		begun = time.Now()
	}
	l := labtest.Up(b, lab.Config{Data: b.TempDir(), Parts: []lab.Part{&lab.KWOK{}, &lab.Prometheus{}}})
	lap("s-up")
	c := must.Get(kubernetes.NewForConfig(l.REST()))(b)
	inParallel(b, 8, nodes, func(i int) error {
		_, err := c.CoreV1().Nodes().Create(b.Context(), node(fmt.Sprintf("node-%04d", i)), metav1.CreateOptions{})
		return err
	})
	until(b, func(ctx context.Context) error { return nodesReady(ctx, c, nodes) })
	lap("s-nodes")
	if _, err := c.AppsV1().Deployments("default").Create(b.Context(), deployment("app", int32(pods)), metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	until(b, func(ctx context.Context) error { return podsReady(ctx, c, pods) })
	lap("s-pods")
	for _, part := range l.Status() {
		b.ReportMetric(rss(b, part.PID), "MB-"+part.Name)
	}
	labtest.Down(b, l)
}

// until waits until there is no error any more.
func until(b *testing.B, ask func(context.Context) error) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(250 * time.Millisecond) {
		err := ask(b.Context())
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}
}

// inParallel does something so many times, some at once.
func inParallel(b *testing.B, workers, times int, do func(i int) error) {
	b.Helper()
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for i := w; i < times; i += workers {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
}

// rss is the memory that a process has, in MB.
func rss(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "statm"))
	if err != nil {
		b.Skip("only Linux tells what memory a process has")
	}
	pages := must.Get(strconv.Atoi(strings.Fields(string(text))[1]))(b)
	return float64(pages) * float64(os.Getpagesize()) / (1 << 20)
}
