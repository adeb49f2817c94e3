package trial

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/testbed"
	"github.com/plimsoll/plimsoll/testbed/k6"
	"github.com/plimsoll/plimsoll/testbed/lab/product"
	"github.com/plimsoll/plimsoll/testbed/live"
	"github.com/plimsoll/plimsoll/testbed/rke2"
)

// The mark of all that a run makes in its namespace, and is removed by. Plimsoll's pods carry the
// run that they are of.
const (
	mark     = "testbed.plimsoll.dev/run"
	marked   = "true"
	attempt  = "testbed.plimsoll.dev/attempt"
	loadName = "k6"
	// productName is Plimsoll's Deployment, ConfigMap and container.
	productName = "plimsoll"
	port        = 8080 // of the loader
)

// manifest are Plimsoll's own manifests.
func manifest(name string) ([]*unstructured.Unstructured, error) {
	text, err := deploy.Manifests.ReadFile("manifests/" + name + ".yaml")
	if err != nil {
		return nil, err
	}
	return documents(text)
}

// releaseImage is the one that the manifests install.
func releaseImage() (string, error) {
	all, err := manifest("active")
	if err != nil {
		return "", err
	}
	for _, o := range all {
		if o.GetKind() == "Deployment" {
			var d appsv1.Deployment
			err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &d)
			return d.Spec.Template.Spec.Containers[0].Image, err
		}
	}
	return "", fs.ErrNotExist
}

// scaling is how machines are decided on: by which of Plimsoll's manifests, and by which program.
type scaling struct{ manifest, by string }

var (
	byPlimsoll   = scaling{deploy.Active, string(v1alpha1.ScaledByPlimsoll)}
	byAutoscaler = scaling{deploy.Provider, string(v1alpha1.ScaledByClusterAutoscaler)}
)

// scaling is the row's. The first machines are made by Plimsoll's in every row.
func (r *manifests) scaling() scaling {
	if r.job.Policy.Upstream() {
		return byAutoscaler
	}
	return byPlimsoll
}

// installed is Plimsoll as its manifests install it, with a configuration of the run's, in an
// attempt's name. With no replicas, it is stopped.
func (r *manifests) installed(how scaling, config map[string]any, name string, replicas int32) ([]client.Object, error) {
	all, err := manifest(how.manifest)
	if err != nil {
		return nil, err
	}
	if how == byAutoscaler {
		if config["provider"], err = served(all); err != nil {
			return nil, err
		}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	var out []client.Object
	for _, o := range all {
		switch {
		case o.GetKind() == "ConfigMap" && o.GetName() == productName:
			data := map[string]any{"config.yaml": string(text)}
			if len(r.world.CA) > 0 {
				data[caFile] = string(r.world.CA)
			}
			o.Object["data"] = data
		case o.GetKind() == "Deployment":
			d := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
				return nil, err
			}
			r.change(d, fmt.Sprintf("%x", sha256.Sum256(text)), name, replicas)
			out = append(out, d)
			continue
		}
		out = append(out, o)
	}
	return out, nil
}

// served is how cluster-autoscaler is served, as Plimsoll's manifests have it: by the certificates
// that they mount.
func served(all []*unstructured.Unstructured) (any, error) {
	for _, o := range all {
		if o.GetKind() != "ConfigMap" || o.GetName() != productName {
			continue
		}
		text, _, err := unstructured.NestedString(o.Object, "data", "config.yaml")
		var held struct {
			Provider any `json:"provider"`
		}
		return held.Provider, errors.Join(err, yaml.Unmarshal([]byte(text), &held))
	}
	return nil, fs.ErrNotExist
}

// caFile is the certificate of Proxmox VE, beside the configuration.
const caFile = "ca.crt"

// change makes the Deployment the run's. The second of two Plimsolls would only wait for the lease,
// and write nothing in its journal.
func (r *manifests) change(d *appsv1.Deployment, sum, name string, replicas int32) {
	d.Spec.Replicas = &replicas
	d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	pod := &d.Spec.Template
	pod.Annotations["checksum/config"], pod.Annotations[attempt] = sum, name
	if image := r.settings.Images.Plimsoll; image != "" {
		pod.Spec.Containers[0].Image = image
	}
	if len(r.world.CA) == 0 {
		return
	}
	for _, v := range pod.Spec.Volumes {
		if v.Projected != nil {
			m := v.Projected.Sources[0].ConfigMap
			m.Items = append(m.Items, corev1.KeyToPath{Key: caFile, Path: caFile})
		}
	}
}

// config is Plimsoll's configuration.
func (r *manifests) config(interval any) map[string]any {
	s := r.world.Site
	c := map[string]any{
		"owner": s.Owner, "adoptUnmarked": true, "endpoints": s.Endpoints, "tokenFile": rke2.ProductToken,
		"mode": "Active", "state": "kubernetes", "metrics": ":8080",
		"interval": interval, "journal": map[string]any{"file": "-"},
	}
	if len(s.Fingerprints) > 0 {
		c["fingerprints"] = s.Fingerprints
	}
	if s.Insecure {
		c["insecure"] = true
	}
	if len(r.world.CA) > 0 {
		c["caFile"] = caFile
	}
	if p := r.settings.Prometheus; p != nil && p.InCluster != "" {
		if at, err := url.Parse(p.InCluster); err == nil { // the site has been checked
			c["signals"] = map[string]any{"allowedHosts": []any{map[string]any{"hosts": []string{strings.ToLower(at.Host)}}}}
		}
	}
	return c
}

// starting is the configuration that brings the workers to those that there are to be at the start.
func (r *manifests) starting() map[string]any {
	c := r.config("5s")
	c["nodes"] = map[string]any{"policy": "unneeded", "unneeded": map[string]any{
		"scanInterval": "5s", "enforceNodeGroupMinSize": true, "scaleDownUtilizationThreshold": 1,
		"scaleDownUnneededTime": "1s", "scaleDownUnreadyTime": "1s", "scaleDownDelayAfterAdd": "1s", "scaleDownDelayAfterFailure": "10s",
		"maxDrainParallelism":             10,
		"initialNodeGroupBackoffDuration": "10s", "maxNodeGroupBackoffDuration": "1m",
	}}
	return c
}

// row is the configuration with the row's policies. Where cluster-autoscaler decides on machines,
// it has no policy for those, and passes on what is expected of pods if the row has it listen.
func (r *manifests) row() map[string]any {
	c := r.config(nodescaler.Duration(r.Tick))
	if r.job.Policy.Upstream() {
		by := kube.ByNothing
		if r.flags().CapacityBufferPodInjectionEnabled {
			by = kube.ByCapacityBuffer
		}
		c["handoff"] = map[string]any{"by": by}
		return c
	}
	c["nodes"] = r.job.Policy.Nodes.Spec()
	if l := r.job.Policy.Limit; l != nil {
		c["limit"] = map[string]any{"amount": l.Amount, "per": pricing.Short(l.Per)}
	}
	return c
}

// offer is what machines there may be, by whose decision, and what they cost.
func (r *manifests) offer(how scaling) ([]client.Object, error) {
	prices, err := product.Object("PriceBook", v1alpha1.DefaultPriceBook, r.Prices)
	if err != nil {
		return nil, err
	}
	want := &r.Pools[0]
	pool, err := r.world.Site.Offer(how.by, func(p *settings.Pool) {
		p.Min, p.Max, p.PodSlots = want.Min, want.Max, want.PodSlots
		if most := r.job.Policy.MaxMachines; most > 0 {
			p.Max = min(p.Max, most)
		}
		var shapes []pricing.Shape
		for _, s := range want.Shapes {
			shapes = append(shapes, p.Shapes[shapeNamed(p.Shapes, s.Name)])
		}
		p.Shapes = shapes
	})
	return []client.Object{&unstructured.Unstructured{Object: prices}, &unstructured.Unstructured{Object: pool}}, err
}

// namespace is where all else is.
func (r *manifests) namespace() client.Object {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: r.settings.Namespace}}
}

// service is the experiment's workload.
func (r *manifests) service() []client.Object {
	w := &r.Workloads[0]
	namespace, name := live.Names(w)
	d := live.Deployment(w, r.containers())
	pod := &d.Spec.Template
	pod.Labels = maps.Clone(pod.Labels)
	pod.Labels[mark] = marked
	maps.Copy(pod.Annotations, map[string]string{
		"prometheus.io/scrape": "true", "prometheus.io/port": fmt.Sprint(port), "prometheus.io/path": "/metrics",
	})
	if r.settings.Signals.Inject {
		pod.Labels["sidecar.istio.io/inject"] = "true"
		if rest := live.Beside(w); rest > 0 {
			pod.Annotations["sidecar.istio.io/proxyCPU"] = fmt.Sprintf("%dm", int64(rest))
		}
	}
	no := false
	pod.Spec.AutomountServiceAccountToken, pod.Spec.EnableServiceLinks = &no, &no
	pod.Spec.SecurityContext = unprivileged(65532)
	all := []client.Object{d, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Selector: live.Labels(w),
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}}
	if b := live.Budget(w); b != nil {
		all = append(all, b)
	}
	return withMark(all)
}

// unprivileged is a user without rights.
func unprivileged(id int64) *corev1.PodSecurityContext {
	yes := true
	return &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

func restricted() *corev1.SecurityContext {
	no, yes := false, true
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

func withMark(all []client.Object) []client.Object {
	for _, o := range all {
		o.SetLabels(map[string]string{mark: marked})
	}
	return all
}

// lingering is how long a pod that ends takes requests, while it is taken out of the Service.
const lingering = 5 * time.Second

// linger is that of a workload's pods: some of their grace is for what they have begun.
func linger(w *testbed.Workload) time.Duration { return min(lingering, w.Grace/2) }

// containers are those of a pod: the loader, and what asks for the CPU that a mesh's proxy would,
// where none exists.
func (r *manifests) containers() []corev1.Container {
	w := &r.Workloads[0]
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler:   corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http")}},
			TimeoutSeconds: 5, // a pod with more work than CPU answers late, and is not dead
		}
	}
	ready, alive := probe("/readyz"), probe("/healthz")
	ready.PeriodSeconds, alive.PeriodSeconds, alive.FailureThreshold = 2, 10, 6
	work := "--calibrate=" + w.Demand.Mean.String()
	if r.settings.Digits > 0 {
		work = fmt.Sprintf("--digits=%d", r.settings.Digits)
	}
	linger := linger(w)
	all := []corev1.Container{{
		Name: "loader", Image: r.image,
		Args: []string{
			"testbed", "loader", fmt.Sprintf("--listen=:%d", port), "--expose", work, "--spread=" + w.Demand.Spread.String(), fmt.Sprintf("--at-once=%d", w.Concurrency),
			"--linger=" + linger.String(), "--grace=" + max(w.Grace-linger-time.Second, time.Second).String(),
		},
		Ports:          []corev1.ContainerPort{{Name: "http", ContainerPort: port}},
		ReadinessProbe: ready, LivenessProbe: alive, Resources: live.Server(w), SecurityContext: restricted(),
	}}
	if live.Beside(w) > 0 && !r.settings.Signals.Inject {
		all = append(all, corev1.Container{
			Name: "sidecar", Image: r.image, Args: []string{"testbed", "loader", "--listen=127.0.0.1:8081", "--digits=1"},
			Resources: live.Sidecar(w), SecurityContext: restricted(),
		})
	}
	return all
}

// autoscaler has Plimsoll scale the workload.
func (r *manifests) autoscaler() (client.Object, error) {
	signals := v1alpha1.Signals{Preset: r.settings.Signals.Preset}
	switch p := r.settings.Prometheus; {
	case signals.Preset == v1alpha1.PresetOTel:
		signals.Scrape = &v1alpha1.Scrape{Port: port}
	case p != nil && p.InCluster != "":
		signals.Prometheus = &v1alpha1.Prometheus{URL: p.InCluster}
	default:
		signals.Scrape = &v1alpha1.Scrape{}
	}
	a, err := live.Autoscaler(&r.Workloads[0], r.job.Policy, signals)
	if err != nil {
		return nil, err
	}
	return withMark([]client.Object{a})[0], nil
}

// load is k6 on the load machine, with its scripts.
func (r *manifests) load() ([]client.Object, error) {
	scripts := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.settings.Namespace, Name: loadName}, Data: map[string]string{}}
	err := fs.WalkDir(k6.Scripts, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := k6.Scripts.ReadFile(name)
		scripts.Data[name] = string(text)
		return err
	})
	if err != nil {
		return nil, err
	}
	l := live.Load(r.Experiment, r.job, r.address())
	l.Fresh = true // a Service spreads connections over pods, and not requests
	if err := l.Validate(); err != nil {
		return nil, err
	}
	never, limit := int32(0), int64((r.job.Length + afterwards).Seconds())
	no := false
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.settings.Namespace, Name: loadName},
		Spec: batchv1.JobSpec{
			BackoffLimit: &never, ActiveDeadlineSeconds: &limit,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{attempt: r.attempt, mark: marked}, Annotations: map[string]string{"sidecar.istio.io/inject": "false"}},
				Spec: corev1.PodSpec{
					RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
					NodeSelector:    map[string]string{rke2.LoadLabel: rke2.LoadValue},
					Tolerations:     []corev1.Toleration{{Key: rke2.LoadLabel, Operator: corev1.TolerationOpExists}},
					SecurityContext: unprivileged(12345),
					Containers: []corev1.Container{{
						Name: loadName, Image: r.settings.Images.K6, Command: []string{"k6"}, Args: k6.Arguments(l.Settings(), "/scripts/"+k6.Paper),
						Env:             []corev1.EnvVar{{Name: "K6_NO_USAGE_REPORT", Value: "true"}},
						SecurityContext: restricted(),
						VolumeMounts:    []corev1.VolumeMount{{Name: "scripts", MountPath: "/scripts", ReadOnly: true}},
					}},
					Volumes: []corev1.Volume{{Name: "scripts", VolumeSource: corev1.VolumeSource{
						ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: loadName}},
					}}},
				},
			},
		},
	}
	return withMark([]client.Object{scripts, job}), nil
}

// address is where the application is asked: by its Service.
func (r *manifests) address() string {
	namespace, name := live.Names(&r.Workloads[0])
	return fmt.Sprintf("http://%s.%s.svc/", name, namespace)
}

func shapeNamed(all []pricing.Shape, name string) int {
	for i := range all {
		if all[i].Name == name {
			return i
		}
	}
	return -1
}
