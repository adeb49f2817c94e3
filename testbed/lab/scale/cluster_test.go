//go:build lab

package scale

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/kubelet"
	"github.com/plimsoll/plimsoll/testbed/lab/labtest"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/must"
)

var (
	nodes     = flag.Int("nodes", 1000, "how many machines Plimsoll makes, each of which becomes a node")
	pods      = flag.Int("pods", 30000, "how many pods there are on them")
	workloads = flag.Int("workloads", 200, "how many Deployments the pods are of, each with a WorkloadAutoscaler")
	during    = flag.Duration("during", 5*time.Minute, "for how long it is measured once all is there")
	probes    = flag.Int("probes", 10, "how many pods that fit nowhere are made meanwhile")
	program   = flag.String("program", "", "the plimsoll to run; empty builds this checkout's")
	patience  = flag.Duration("patience", time.Hour, "how long nodes, and then pods, may take to be Ready; it goes on with those that are")
	rate      = flag.Float64("rate", 400, "requests a second, to all workloads together")
)

const (
	namespaces = 20
	speed      = 100 // of the emulated Proxmox VE, which would take an hour for a thousand clones
	cores      = 2   // of a machine
	perHost    = 30  // machines
	spare      = 50  // machines that may come on top, for pods that fit nowhere
)

// BenchmarkCluster has Plimsoll make a large cluster's machines on an emulated Proxmox VE, fills
// them with pods that serve and are scaled, and measures what it then costs to go on. A sixth of a
// pod in a thousand is deleted each second, and made anew.
func BenchmarkCluster(b *testing.B) {
	for b.Loop() {
		w := newWorld(b)
		w.makeNodes()
		w.makePods()
		w.settle()
		w.measure()
		w.report.print(os.Stdout)
		labtest.Down(b, w.lab)
	}
}

// world is the lab with Plimsoll in it.
type world struct {
	*testing.B
	lab      *lab.Lab
	machines *machines.Part
	client   kubernetes.Interface
	journal  journal
	stepped  chan struct{} // holds something after a step
	clones   clones
	began    time.Time
	report   report
}

func newWorld(b *testing.B) *world {
	b.Helper()
	if *nodes < 1 || *workloads < 1 || *pods < *workloads || *pods > podsPerNode*(*nodes) {
		b.Fatalf("nodes, workloads and pods: there must be at least one of each, a pod for each workload and no more than %d on a node, was %d, %d and %d",
			podsPerNode, *nodes, *workloads, *pods)
	}
	w := &world{B: b, began: time.Now(), stepped: make(chan struct{}, 1), machines: &machines.Part{
		Hosts: *nodes/perHost + 2, Speed: speed, Seed: 1, Site: site,
	}}
	data := b.TempDir()
	journalFile := filepath.Join(data, "journal.ndjson")
	plimsoll := &product.Part{Program: *program, Settings: map[string]any{
		"mode": "Active", "journal": map[string]any{"file": journalFile, "rotateSize": "8GiB"},
		"nodes": map[string]any{"policy": "unneeded", "unneeded": map[string]any{"scanInterval": "1s", "enforceNodeGroupMinSize": true}},
	}}
	if *program == "" {
		plimsoll.Program = labtest.Program(b)
	}
	parts := []lab.Part{
		// An idle kubelet writes its node's status every five minutes, and shows by a lease that it
		// lives, which no one but the controllers reads.
		&lab.KWOK{PodStart: between(time.Second, 3*time.Second), PodStop: between(0, time.Second), Heartbeat: between(4*time.Minute, 5*time.Minute)},
		&lab.Prometheus{}, w.machines, &plane.Part{Seed: 1, Gateway: true}, plimsoll,
	}
	product.Link(parts)
	w.lab = labtest.Up(b, lab.Config{
		Data: data, Parts: parts, Progress: w.say,
		ControlPlane: lab.ControlPlane{ControllerManagerArgs: []string{"--node-monitor-grace-period=12m"}},
	})
	w.client = kubernetes.NewForConfigOrDie(w.lab.REST())
	go w.journal.read(b, journalFile, func() {
		select {
		case w.stepped <- struct{}{}:
		default:
		}
	})
	w.machines.Cluster().OnCall(w.clones.saw)
	return w
}

// podsPerNode is what a kubelet takes.
const podsPerNode = 110

func between(least, most time.Duration) timing.Range { return timing.Range{Min: least, Max: most} }

// say says how far it is.
func (w *world) say(line string) {
	fmt.Fprintf(os.Stderr, "%6.0fs  %s\n", time.Since(w.began).Seconds(), line)
}

// site is a site with hosts for so many machines, and one pool that they are all of.
func site(s *settings.Site) {
	s.ClonesPerStorage = 100
	p := &s.Pools[0]
	p.Shapes = []pricing.Shape{{Name: "small", CPU: cores * pricing.Core, Memory: 8 * pricing.GiB, Disk: 20 * pricing.GiB}}
	p.Min, p.Max = *nodes, *nodes+spare
	p.VMIDs = placement.VMIDs{First: 10000, Last: 10000 + 2*p.Max}
}

// create creates objects of a manifest.
func (w *world) create(objects ...any) {
	w.Helper()
	var manifest strings.Builder
	for _, o := range objects {
		text := must.Get(yaml.Marshal(o))(w)
		manifest.WriteString("---\n" + string(text))
	}
	if err := w.lab.Create(w.Context(), []byte(manifest.String())); err != nil {
		w.Fatal(err)
	}
}

// until waits until something is so, or patience ends, and prints on the way how far it is.
func (w *world) until(what string, far func(ctx context.Context) (done, of int, err error)) made {
	w.Helper()
	begun, printed := time.Now(), time.Now()
	for {
		done, of, err := far(w.Context())
		m := made{done, time.Since(begun)}
		switch {
		case err == nil && (done >= of || m.in > *patience):
			w.say(fmt.Sprintf("%s: %d in %s", what, done, short(m.in)))
			return m
		case m.in > *patience:
			w.Fatalf("%s: %d of %d: %v", what, done, of, err)
		case time.Since(printed) > 30*time.Second:
			printed = time.Now()
			w.say(fmt.Sprintf("%s: %d of %d", what, done, of))
		}
		time.Sleep(2 * time.Second)
	}
}

// made is how many of something there came to be, and in which time.
type made struct {
	many int
	in   time.Duration
}

// makeNodes lets Plimsoll make the machines: a pool that asks for so many at least.
func (w *world) makeNodes() {
	w.create(object("PriceBook", "default", "", map[string]any{"currency": "units", "pricePerVCPUHour": 1, "pricePerGBHour": 1}))
	pools := must.Get(product.Pools(w.machines))(w)
	w.create(pools[0])
	w.report.machines = w.until("nodes that are Ready", func(ctx context.Context) (int, int, error) {
		// From the watch cache: a thousand nodes are megabytes.
		list, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0, *nodes, err
		}
		ready := 0
		for i := range list.Items {
			if kubelet.Ready(&list.Items[i]) {
				ready++
			}
		}
		return ready, *nodes, nil
	})
}

// makePods makes the Deployments, waits until their pods run, sends them requests, and gives each
// an autoscaler.
func (w *world) makePods() {
	var all []any
	for i := range namespaces {
		all = append(all, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace(i)}})
	}
	for i := range *workloads {
		all = append(all, deployment(i))
	}
	w.create(all...)
	w.report.replicas = w.until("pods that are Ready", func(ctx context.Context) (int, int, error) {
		list, err := w.client.AppsV1().Deployments("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return 0, *pods, err
		}
		ready := 0
		for i := range list.Items {
			ready += int(list.Items[i].Status.ReadyReplicas)
		}
		return ready, *pods, nil
	})
	all = nil
	for i := range *workloads {
		all = append(all, autoscaler(i, w.lab.Endpoint(lab.PrometheusPart, "api")))
	}
	w.create(all...)
}

// settle sends requests from now on, deletes pods, and waits until the autoscalers' windows are
// over.
func (w *world) settle() {
	for i := range *workloads {
		go w.ask(i)
	}
	go w.churn()
	w.say("requests are sent; waiting until windows are over")
	time.Sleep(window + 30*time.Second)
}

// ask sends requests to a workload, with gaps at random, as long as the benchmark runs.
func (w *world) ask(i int) {
	gaps := rand.New(rand.NewPCG(1, uint64(i)))
	url := w.lab.Endpoint(plane.PartName, "apps") + "/apps/" + namespace(i) + "/" + name(i) + "/"
	mean := float64(time.Second) * float64(*workloads) / *rate
	for w.Context().Err() == nil {
		time.Sleep(time.Duration(gaps.ExpFloat64() * mean))
		go func() {
			answer, err := asking.Get(url)
			if err != nil || answer.StatusCode != http.StatusOK {
				w.report.failed.Add(1)
			}
			if err == nil {
				_ = answer.Body.Close() // its status says it all
			}
			w.report.asked.Add(1)
		}()
	}
}

var asking = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

// churnEvery is of how many pods one is deleted each second.
const churnEvery = 6000

// churn deletes pods all the time, here and there.
func (w *world) churn() {
	chance := rand.New(rand.NewPCG(1, 0))
	for each := time.Second * churnEvery / time.Duration(*pods); w.Context().Err() == nil; time.Sleep(each) {
		i := chance.IntN(*workloads)
		some := metav1.ListOptions{LabelSelector: "app=" + name(i), ResourceVersion: "0"}
		list, err := w.client.CoreV1().Pods(namespace(i)).List(w.Context(), some)
		if err != nil || len(list.Items) == 0 {
			continue
		}
		pod := list.Items[chance.IntN(len(list.Items))].Name
		if err := w.client.CoreV1().Pods(namespace(i)).Delete(w.Context(), pod, metav1.DeleteOptions{}); err == nil {
			w.report.deleted.Add(1)
		}
	}
}

// probe makes a pod that fits nowhere, and returns how long after the scheduler had said so the
// next step began, and how long after it a clone was asked for.
func (w *world) probe(i int) (wake, clone time.Duration) {
	w.Helper()
	audit := follow(w, w.lab.AuditLog())
	defer audit.Close() //nolint:errcheck // it was read
	pod := probe(i)
	if _, err := w.client.CoreV1().Pods(namespace(0)).Create(w.Context(), pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		w.Fatal(err)
	}
	seen := audit.unschedulable(w, pod.Name)
	woken := w.journal.after(w, seen)
	return woken.Sub(seen), w.clones.after(w, seen).Sub(seen)
}
