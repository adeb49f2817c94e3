package kept

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/pricing"
)

func TestWhatSizingGoesByIsReadFromPods(t *testing.T) {
	const meta = `metadata: {namespace: shop, name: web-1, generation: 3, ` + written.Owned + `}` + "\n"
	const app = `spec: {containers: [{name: app, resources: {requests: {cpu: 100m}}}]}` + "\n"
	pair := func(cpu, memory int64) pricing.Resources {
		return pricing.Resources{CPU: pricing.MilliCPU(cpu), Memory: pricing.Bytes(memory) * pricing.MiB}
	}
	plain := []rightsize.Container{{Name: "app", Requests: pair(100, 0)}}
	at := func(minute int) time.Time { return time.Date(2026, 3, 1, 12, minute, 0, 0, time.UTC) }
	dead := []rightsize.Container{{Name: "app", Requests: pair(100, 0), OOMStarted: at(1), OOMEnded: at(2)}}
	const killed = `{terminated: {reason: OOMKilled, exitCode: 137, startedAt: "2026-03-01T12:01:00Z", finishedAt: "2026-03-01T12:02:00Z"}}`
	for _, c := range []struct {
		name, pod string
		want      rightsize.Pod
	}{{
		"what containers ask for", meta + `spec:
  initContainers: [{name: first, resources: {requests: {cpu: 2}}}, {name: side, restartPolicy: Always, resources: {requests: {cpu: 1}}}]
  containers:
  - {name: app, resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}, resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}, {resourceName: memory, restartPolicy: RestartContainer}]}
  - {name: proxy}`,
		rightsize.Pod{Containers: []rightsize.Container{
			{Name: "app", Requests: pair(100, 64), Limits: pair(0, 128), Restarts: []rightsize.Resource{rightsize.Memory}}, {Name: "proxy"},
			{Name: "side", Sidecar: true, Requests: pair(1000, 0)},
		}, Starts: []rightsize.Start{{Requests: pair(2000, 0)}}},
	}, {
		"a pod that asks as a whole", meta + `spec: {resources: {requests: {cpu: 1}}, containers: [{name: app}]}`, rightsize.Pod{},
	}, {
		"one that runs", meta + app + `status: {phase: Running, startTime: "2026-03-01T12:00:00Z"}`, rightsize.Pod{Running: true, Started: at(0), Containers: plain},
	}, {
		"a kill that was restarted from", meta + app + `status: {containerStatuses: [{name: app, lastState: ` + killed + `}]}`, rightsize.Pod{Containers: dead},
	}, {
		"a kill that was not yet", meta + app + `status: {containerStatuses: [{name: app, state: ` + killed + `}]}`, rightsize.Pod{Containers: dead},
	}, {
		"another end", meta + app + `status: {containerStatuses: [{name: app, lastState: ` + strings.Replace(killed, "OOMKilled", "Error", 1) + `}]}`, rightsize.Pod{Containers: plain},
	}, {
		"a kill of a sidecar", meta + `spec: {containers: [{name: app, resources: {requests: {cpu: 100m}}}], initContainers: [{name: side, restartPolicy: Always}]}
status: {initContainerStatuses: [{name: side, lastState: ` + killed + `}]}`,
		rightsize.Pod{Containers: append(slices.Clip(plain), rightsize.Container{Name: "side", Sidecar: true, OOMStarted: at(1), OOMEnded: at(2)})},
	}, {
		"a resize that is deferred", meta + app + `status: {conditions: [{type: PodResizePending, status: "True", reason: Deferred, lastTransitionTime: "2026-03-01T12:03:00Z"}]}`,
		rightsize.Pod{Resize: rightsize.ResizeDeferred, ResizeSince: at(3), Containers: plain},
	}, {
		"one that is deferred while an earlier one is under way", meta + app + `status: {conditions: [{type: PodResizeInProgress, status: "True"}, {type: PodResizePending, status: "True", reason: Deferred}]}`,
		rightsize.Pod{Resize: rightsize.ResizePending, Containers: plain},
	}, {
		"one that no node can hold, beside one under way", meta + app + `status: {conditions: [{type: PodResizeInProgress, status: "True"}, {type: PodResizePending, status: "True", reason: Infeasible}]}`,
		rightsize.Pod{Resize: rightsize.ResizeInfeasible, Containers: plain},
	}, {
		"one under way", meta + app + `status: {conditions: [{type: PodResizeInProgress, status: "True"}]}`, rightsize.Pod{Resize: rightsize.ResizePending, Containers: plain},
	}, {
		"one that is over", meta + app + `status: {observedGeneration: 3, conditions: [{type: PodResizeInProgress, status: "False"}]}`, rightsize.Pod{Containers: plain},
	}, {
		"one that the kubelet has not looked at", meta + app + `status: {observedGeneration: 2}`, rightsize.Pod{Resize: rightsize.ResizePending, Containers: plain},
	}} {
		t.Run(c.name, func(t *testing.T) {
			got := keptPod(t, c.pod).Sizing()
			got.Started, got.ResizeSince = got.Started.UTC(), got.ResizeSince.UTC()
			for i := range got.Containers {
				o := &got.Containers[i]
				o.OOMStarted, o.OOMEnded = o.OOMStarted.UTC(), o.OOMEnded.UTC()
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
