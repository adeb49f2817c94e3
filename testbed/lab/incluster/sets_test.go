//go:build lab

package incluster

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab/machines"
)

// set is workloads in a namespace of their own. Their pods go onto nodes of the set's own pools,
// one in each zone.
type set struct {
	name     string
	apps     []app
	critical bool // a DaemonSet of the class system-node-critical takes 300m of each node

	bought, plans int    // machines, and the steps that ordered them
	last          string // of those steps
	machines      int    // that there are
}

// app is a Deployment.
type app struct {
	name        string
	replicas    int
	cpu, memory string
	rule        string // of its pods' spec
	port        int    // of the node, if not 0
	device      bool   // it asks for one
	claim       bool   // it claims one
	volume      string // the zone of the volume that it mounts, if it does
}

const (
	zoneKey, hostKey = corev1.LabelTopologyZone, corev1.LabelHostname
	setKey, device   = "example.com/set", "example.com/gpu"
	driver, class    = "dra.example.com", "card" // of devices that are claimed
	bookOfSets       = "lab"
	// How much faster the emulator's time passes than the wall's. A machine may be empty for five
	// minutes of it.
	speedOfSets = 5
	mayBeEmpty  = 5 * time.Minute / speedOfSets
)

var zones = []string{"a", "b", "c"}

// field is a lab in which sets get their machines, and what the program's journal says of that.
type field struct {
	*world
	program  *child
	sets     map[string]*set
	read     int64 // bytes of the journal
	steps    int
	unplaced []nodescaler.Unplaced
	// machines that are to stay, without a pod but daemons', since when
	empty   map[string]time.Time
	longest time.Duration // that one was
}

// newField makes sets while machines have no price, for which none is ordered: the first plan then
// sees all pods.
func newField(w *world, sets []*set) *field {
	w.Helper()
	w.site.ClonesPerStorage = 100
	f := &field{world: w, sets: map[string]*set{}}
	go f.plugDevices()
	pods := 0
	for i, s := range sets {
		f.sets[s.name] = s
		f.pools(s, 10000+i*len(zones)*100)
		for _, manifest := range s.manifests() {
			f.apply(manifest)
		}
		for _, a := range s.apps {
			pods += a.replicas
		}
	}
	f.begins("mode: Active\ninterval: 1s\n")
	f.until(fmt.Sprintf("all %d pods of %d sets wait", pods, len(sets)), func() bool {
		all := f.podsOfSets()
		return len(all) == pods && !slices.ContainsFunc(all, func(p corev1.Pod) bool { return !unschedulable(&p) })
	})
	f.apply(strings.Replace(prices, "default", bookOfSets, 1))
	return f
}

// begins starts the program, after the last one, if there was one.
func (f *field) begins(settings string) {
	f.Helper()
	if f.program != nil {
		f.program.stop(f.world)
	}
	f.program = f.start("nodescaler", settings+"\nstate: "+filepath.Join(f.ArtifactDir(), "state")+"\npriceBook: "+bookOfSets+"\n")
	f.read, f.empty, f.longest = 0, nil, 0
}

// pveOfSets has room for hundreds of machines, some of which boot far sooner than others.
func pveOfSets() *machines.Part {
	seconds := func(least, most time.Duration) timing.Range {
		return timing.Range{Min: least * time.Second, Max: most * time.Second}
	}
	return &machines.Part{Hosts: 8, Speed: speedOfSets, Seed: 1, Times: timing.Machine{Clone: seconds(0, 1), Boot: seconds(5, 20), Delete: seconds(1, 2)}}
}

// plugDevices plays the device plugin and the driver of claimed devices of every node, which come
// after the node. The API server ends a watch that is slow, and the next begins with all nodes.
func (f *field) plugDevices() {
	for f.Context().Err() == nil {
		watch, err := f.client.CoreV1().Nodes().Watch(f.Context(), metav1.ListOptions{})
		if err != nil {
			time.Sleep(time.Second)
			continue
		}
		for e := range watch.ResultChan() {
			if n, is := e.Object.(*corev1.Node); is && n.DeletionTimestamp == nil && n.Status.Allocatable.Name(device, "").IsZero() {
				f.plugInto(n)
			}
		}
	}
}

// plugInto gives a node its devices. What fails is tried again at the node's next heartbeat.
func (f *field) plugInto(n *corev1.Node) {
	has := fmt.Appendf(nil, `{"status": {"capacity": {%[1]q: "1"}, "allocatable": {%[1]q: "1"}}}`, device)
	_, err := f.client.ResourceV1().ResourceSlices().Create(f.Context(), cardOf(n), metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, _ = f.client.CoreV1().Nodes().Patch(f.Context(), n.Name, types.MergePatchType, has, metav1.PatchOptions{}, "status")
	}
}

// cardOf is the one device of a node that can be claimed.
func cardOf(n *corev1.Node) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{
		Driver: driver, NodeName: &n.Name, Pool: resourcev1.ResourcePool{Name: n.Name, Generation: 1, ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "card-0"}},
	}}
	s.Name = n.Name
	s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: n.UID}}
	return s
}

func (f *field) pools(s *set, vmid int) {
	f.Helper()
	for i, zone := range zones {
		f.poolOf(s.name+"-"+zone, 24, fmt.Sprintf("%d, last: %d", vmid+i*100, vmid+i*100+99),
			"{name: small, cpu: 2, memory: 2GiB}, {name: large, cpu: 4, memory: 4GiB}",
			fmt.Sprintf("  mode: Active\n  zone: %s\n  labels: {%s: %s}\n  resources: {%s: 1, deviceclass.resource.kubernetes.io/%s: 1}\n  placement: {cpuRatio: \"4\"}\n", zone, setKey, s.name, device, class))
	}
}

// manifests are the set's objects.
func (s *set) manifests() []string {
	all := []string{
		fmt.Sprintf("{apiVersion: v1, kind: Namespace, metadata: {name: %s}}", s.name),
		fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s}, spec: {selectors: [{cel: {expression: device.driver == '%s'}}]}}", class, driver),
		fmt.Sprintf("{apiVersion: resource.k8s.io/v1, kind: ResourceClaimTemplate, metadata: {name: one, namespace: %s}, spec: {spec: {devices: {requests: [{name: r, exactly: {deviceClassName: %s}}]}}}}", s.name, class),
	}
	if s.critical {
		all = append(all, fmt.Sprintf(`
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: %s}
spec:
  selector: {matchLabels: {daemon: agent}}
  template:
    metadata: {labels: {daemon: agent}}
    spec:
      nodeSelector: {%s: %[1]s}
      priorityClassName: system-node-critical
      tolerations: [{operator: Exists}]
      terminationGracePeriodSeconds: 1
      containers: [{name: c, image: c, resources: {requests: {cpu: 300m}}}]
`, s.name, setKey))
	}
	for i := range s.apps {
		all = append(all, s.apps[i].manifests(s.name)...)
	}
	return all
}

// manifests are the Deployment, and its claim with the volume.
func (a *app) manifests(set string) (all []string) {
	container, volumes := "", "[]"
	if a.port > 0 {
		container += fmt.Sprintf(", ports: [{containerPort: 80, hostPort: %d}]", a.port)
	}
	limits, claims := "", ""
	if a.claim {
		claims = "resourceClaims: [{name: card, resourceClaimTemplateName: one}]"
	}
	if a.device {
		limits = device + ": 1"
	}
	if a.volume != "" {
		name := set + "-" + a.name
		volumes = fmt.Sprintf("[{name: data, persistentVolumeClaim: {claimName: %s}}]", name)
		all = append(all, fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolume, metadata: {name: %s}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteMany],
  nfs: {server: nas, path: /data}, claimRef: {namespace: %[2]s, name: %[1]s}, nodeAffinity: {required: {nodeSelectorTerms: [{%[3]s}]}}}}`,
			name, set, inZones(a.volume)), fmt.Sprintf(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: %s, namespace: %s},
  spec: {storageClassName: "", volumeName: %[1]s, accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}}`, name, set))
	}
	return append(all, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  replicas: %[3]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s, set: %[2]s}}
    spec:
      nodeSelector: {%[4]s: %[2]s}
      terminationGracePeriodSeconds: 1
      volumes: %[5]s
      containers: [{name: c, image: c, resources: {requests: {cpu: %[6]s, memory: %[7]s}, limits: {%[8]s}}%[9]s}]
      %[10]s
      %[11]s
`, a.name, set, a.replicas, setKey, volumes, a.cpu, a.memory, limits, container, a.rule, claims))
}

func inZones(zones string) string {
	return fmt.Sprintf("matchExpressions: [{key: %s, operator: In, values: [%s]}]", zoneKey, zones)
}

func labelled(app string) string { return "labelSelector: {matchLabels: {app: " + app + "}}" }

// apart, beside and spreads are rules about pods of an app, or how pods of their own are spread, by
// a label of nodes.
func apart(app, key string) string { return between("podAntiAffinity", app, key) }

func beside(app, key string) string { return between("podAffinity", app, key) }

func between(kind, app, key string) string {
	return fmt.Sprintf("affinity: {%s: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: %s, %s}]}}", kind, key, labelled(app))
}

func spreads(app, key string, skew int, more string) string {
	return fmt.Sprintf("topologySpreadConstraints: [{maxSkew: %d, topologyKey: %s, whenUnsatisfiable: DoNotSchedule, %s%s}]", skew, key, labelled(app), more)
}

func (f *field) podsOfSets() []corev1.Pod {
	f.Helper()
	list, err := f.client.CoreV1().Pods("").List(f.Context(), metav1.ListOptions{LabelSelector: "set", ResourceVersion: "0"})
	if err != nil {
		f.Fatal(err)
	}
	return list.Items
}

// until waits until something is so after a step of the program.
func (f *field) until(what string, so func() bool) {
	f.Helper()
	last := -1
	f.world.until(what, func() bool {
		f.follow()
		seen := last
		last = f.steps
		return last != seen && so()
	})
}

// settles waits until all pods run but those that no machine helps, which it returns, and for some
// steps more, in which nothing is bought.
func (f *field) settles() (stranded []string) {
	f.Helper()
	f.until("all pods run that can", func() (ok bool) { stranded, ok = f.placed(); return ok })
	bought, end := f.bought(), f.steps+5
	f.until("five steps more were made", func() bool { return f.steps >= end })
	if now := f.bought(); now != bought {
		f.Errorf("%d machines were bought when all pods ran", now-bought)
	}
	return stranded
}

// placed reports whether all pods run, but those that are stranded and of which the last plan says
// so.
func (f *field) placed() (stranded []string, ok bool) {
	all := f.podsOfSets()
	for i := range all {
		p := &all[i]
		switch {
		case slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}):
		case f.stranded(p, all):
			stranded = append(stranded, p.Namespace+"/"+p.Name)
		default:
			return nil, false
		}
	}
	return stranded, true
}

// stranded reports whether the pod is to share a node with others of its own, one of which is on a
// node that is too small for all. The scheduler chooses by one pod at a time. No machine helps
// then, and the last plan must say so.
func (f *field) stranded(p *corev1.Pod, all []corev1.Pod) bool {
	a := p.Spec.Affinity
	if !unschedulable(p) || a == nil || a.PodAffinity == nil {
		return false
	}
	t := a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	return t.TopologyKey == hostKey && t.LabelSelector.MatchLabels["app"] == p.Labels["app"] &&
		slices.ContainsFunc(all, func(o corev1.Pod) bool {
			return o.Namespace == p.Namespace && o.Labels["app"] == p.Labels["app"] && o.Spec.NodeName != ""
		}) &&
		slices.ContainsFunc(f.unplaced, func(u nodescaler.Unplaced) bool { return slices.Contains(u.Pods, p.Namespace+"/"+p.Name) })
}

func (f *field) bought() (n int) {
	for _, s := range f.sets {
		n += s.bought
	}
	return n
}

// follow reads what is new in the program's journal.
func (f *field) follow() {
	f.Helper()
	file, err := os.Open(f.program.journal())
	if os.IsNotExist(err) { // it has only just begun
		return
	}
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(io.NewSectionReader(file, f.read, 1<<40))
	if err != nil {
		f.Fatal(err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	f.read += int64(len(text))
	if err := loop.Read(bytes.NewReader(text), f.saw); err != nil {
		f.Fatal(err)
	}
}

// saw notes what a step ordered, and which machines it found empty.
func (f *field) saw(step *loop.Step) error {
	f.steps++
	f.unplaced = step.Plan.Unplaced
	undone := map[int]bool{}
	for _, o := range step.Outcomes {
		undone[o.Action] = o.Held != nil || o.Error != ""
	}
	for i := range step.Plan.Actions {
		if a := &step.Plan.Actions[i]; a.Kind == nodescaler.Buy && !undone[i] {
			s := f.setOf(a.Pool)
			s.bought++
			if s.last != step.ID {
				s.last, s.plans = step.ID, s.plans+1
			}
		}
	}
	for _, s := range f.sets {
		s.machines = 0
	}
	empty := map[string]time.Time{}
	for _, h := range step.Observed.Hosts {
		for _, m := range h.Machines {
			s := f.setOf(m.Name)
			s.machines++
			if m.Phase != nodescaler.Joined || m.Draining || m.Pods > s.daemons() {
				continue
			}
			since, was := f.empty[m.Name]
			if !was {
				since = step.Time
			}
			empty[m.Name] = since
			f.longest = max(f.longest, step.Time.Sub(since))
		}
	}
	f.empty = empty
	return nil
}

func (s *set) daemons() int {
	if s.critical {
		return 1
	}
	return 0
}

// setOf is the set of a pool, or of a machine, which is named after its pool.
func (f *field) setOf(name string) *set {
	for key, s := range f.sets {
		if strings.HasPrefix(name, key+"-") {
			return s
		}
	}
	return nil
}
