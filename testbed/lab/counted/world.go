package counted

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"text/template"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/testbed/lab"
	"github.com/plimsoll/plimsoll/testbed/lab/plane"
	"github.com/plimsoll/plimsoll/testbed/replay/hpaplus"
)

// Period is how long a minute of the load takes, unless another is asked for. Pods that start as it
// begins must run for 10 s of it for their CPU to be sampled when it ends.
const Period = 15 * time.Second

// World plays rows in a lab.
type World struct {
	Folder string        // of the lab
	Lab    lab.Config    // Cache, Checkout and Progress; the rest is the world's
	Period time.Duration // Period, if zero
}

// Play plays the rows side by side. All meet the same minutes at the same time.
func (w *World) Play(ctx context.Context, rows []*hpaplus.Row) (err error) {
	period := w.Period
	if period == 0 {
		period = Period
	}
	traffic := &plane.Part{Seed: 1, Every: period}
	cfg := w.Lab
	cfg.Data = w.Folder
	cfg.ControlPlane.ControllerManagerArgs = []string{
		"--horizontal-pod-autoscaler-sync-period=" + period.String(),
		// Pods start within a second, and their first sample is of a whole period.
		"--horizontal-pod-autoscaler-cpu-initialization-period=0s", "--horizontal-pod-autoscaler-initial-readiness-delay=0s",
	}
	cfg.Parts = []lab.Part{&lab.KWOK{}, traffic}
	l, err := lab.Up(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Down()) }()
	r := &run{lab: l, period: period, apps: l.Endpoint(plane.PartName, "apps")}
	if r.client, err = kubernetes.NewForConfig(l.REST()); err != nil {
		return err
	}
	if err := r.settle(ctx, rows); err != nil {
		return err
	}
	return r.play(ctx, rows, traffic)
}

// run is rows that are played.
type run struct {
	lab    *lab.Lab
	client kubernetes.Interface
	period time.Duration
	apps   string
	doors  map[string]*door // by the row's name
}

// objects are a node with room for all, a Deployment for each row, and the autoscalers of those
// that the cluster scales.
var (
	node = `
apiVersion: v1
kind: Node
metadata: {name: big, labels: {` + lab.KubeletLabel + `: ` + lab.KubeletLabelValue + `}}
status:
  capacity: &room {cpu: "10k", memory: 1Ti, pods: "10k"}
  allocatable: *room
`
	deployment = template.Must(template.New("deployment").Parse(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: {{.Name}}, namespace: default}
spec:
  replicas: {{.Pods}}
  selector: {matchLabels: {app: {{.Name}}}}
  template:
    metadata:
      labels: {app: {{.Name}}}
      annotations: {` + plane.AnnotationDemand + `: {{.Demand}}, ` + plane.AnnotationConcurrency + `: "1"}
    spec:
      containers:
        - name: server
          image: lab.plimsoll.dev/server
          resources: {requests: {cpu: "1"}, limits: {cpu: "1"}}
---
`))
	// The model has no pause after a shrink and no limit of growth.
	autoscaler = template.Must(template.New("autoscaler").Parse(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: {{.Name}}, namespace: default}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{.Name}}}
  minReplicas: {{.HPA.Min}}
  maxReplicas: {{.HPA.Max}}
  metrics:
    - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: {{.Percent}}}}}
  behavior:
    scaleUp: &all
      tolerance: "{{.HPA.Tolerance}}"
      stabilizationWindowSeconds: 0
      policies: [{type: Percent, value: 1000, periodSeconds: 1}]
    scaleDown: *all
---
`))
)

// described is a row as its objects are made of it.
type described struct{ *hpaplus.Row }

func (d described) Demand() time.Duration { return time.Second / hpaplus.PerPod }
func (d described) Percent() int          { return int(math.Round(100 * d.HPA.Target)) }

// manifest is one object for each row that is wanted.
func manifest(t *template.Template, rows []*hpaplus.Row, wanted func(*hpaplus.Row) bool) ([]byte, error) {
	var text bytes.Buffer
	for _, row := range rows {
		if !wanted(row) {
			continue
		}
		if err := t.Execute(&text, described{row}); err != nil {
			return nil, err
		}
	}
	return text.Bytes(), nil
}

// settle makes the Deployments, and waits until their pods are ready.
func (r *run) settle(ctx context.Context, rows []*hpaplus.Row) error {
	all, err := manifest(deployment, rows, func(*hpaplus.Row) bool { return true })
	if err != nil {
		return err
	}
	if err := errors.Join(r.lab.Create(ctx, []byte(node)), r.lab.Create(ctx, all)); err != nil {
		return err
	}
	r.doors = map[string]*door{}
	for _, row := range rows {
		r.doors[row.Name] = newDoor(r.apps + "/apps/default/" + row.Name + "/")
	}
	const patience = 5 * time.Minute
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("the first pods were not ready within %s", patience))
	defer cancel()
	for ready := 0; ready < len(rows); {
		if err := r.look(ctx); err != nil {
			return err
		}
		ready = 0
		for _, row := range rows {
			if r.doors[row.Name].pods() == row.Pods {
				ready++
			}
		}
	}
	return nil
}

// play plays every row from the same second on.
func (r *run) play(ctx context.Context, rows []*hpaplus.Row, traffic *plane.Part) error {
	all, err := manifest(autoscaler, rows, func(row *hpaplus.Row) bool { return row.HPA != nil })
	if err != nil {
		return err
	}
	begin := time.Now().Truncate(time.Second).Add(2 * time.Second)
	group, ctx := errgroup.WithContext(ctx)
	looking, looked := context.WithCancel(ctx)
	group.Go(func() error {
		for looking.Err() == nil {
			if err := r.look(looking); err != nil && looking.Err() == nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		if err := until(ctx, begin); err != nil {
			return err
		}
		if err := traffic.SampleFrom(ctx, begin.Add(r.period)); err != nil {
			return err
		}
		// An autoscaler looks first when a period has passed since it was made, and so right after
		// each sample.
		if err := until(ctx, begin.Add(behind)); err != nil {
			return err
		}
		return r.lab.Create(ctx, all)
	})
	players, playing := errgroup.WithContext(ctx)
	for _, row := range rows {
		players.Go(func() error { return r.course(playing, row, begin) })
	}
	group.Go(func() error {
		defer looked()
		return players.Wait()
	})
	return group.Wait()
}

// behind is how long after a sample the autoscalers look: time enough for it to be served.
const behind = 500 * time.Millisecond

// course plays a row, period by period.
func (r *run) course(ctx context.Context, row *hpaplus.Row, begin time.Time) error {
	d := r.doors[row.Name]
	for i, rate := range row.Rates {
		now, err := d.period(ctx, begin.Add(time.Duration(i)*r.period), r.period, rate)
		if err != nil {
			return err
		}
		row.Player.Measured(now)
		if row.HPA != nil || i+1 == len(row.Rates) {
			continue
		}
		change := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, row.Player.Next(row.Rates[i+1]))
		_, err = r.client.AppsV1().Deployments("default").Patch(ctx, row.Name, types.MergePatchType, change, metav1.PatchOptions{}, "scale")
		if err != nil {
			return fmt.Errorf("scale %s: %w", row.Name, err)
		}
	}
	return nil
}

// until waits for a time.
func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
