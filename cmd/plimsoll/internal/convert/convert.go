// Package convert makes WorkloadAutoscalers of other projects' autoscalers:
// HorizontalPodAutoscaler, VerticalPodAutoscaler, KEDA's ScaledObject, the CustomPodAutoscaler of
// the paper on SLO and cost, and Datadog's WatermarkPodAutoscaler. Of the values of kproximate's
// chart it makes a VMPool.
//
// What it makes only recommends. Each setting of a manifest is either carried over with its meaning
// or said to be lost, with the key and the reason.
package convert

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
)

// Options are what manifests leave open.
type Options struct {
	// WindowUnit is the unit of a CustomPodAutoscaler's slo.window, which is a bare number there.
	WindowUnit time.Duration
}

// Result is what came of one autoscaler.
type Result struct {
	From string // HorizontalPodAutoscaler default/web
	// To is nil where nothing was left that could be carried over, and where there is a Fault.
	To *v1alpha1.WorkloadAutoscaler
	// Pool is what was made of kproximate's values, in place of To.
	Pool  *v1alpha1.VMPool
	Lost  []Loss
	Notes []string // what was added or should be known, and is no loss
	Fault error    // what is wrong with the manifest
	// source is the manifest's key of each key that was written, if it is called otherwise here.
	source map[string]string
}

// Loss is something that a manifest says and its WorkloadAutoscaler does not.
type Loss struct{ Key, Why string }

// String prints the loss as a line.
func (l Loss) String() string { return l.Key + ": " + l.Why }

// ErrUnit is wrapped where a number has no unit, and WindowUnit does not say it either.
var ErrUnit = errors.New("has no unit")

// from are the kinds that are understood, by group.
var from = []struct {
	group, kind string
	convert     func(m tree, o Options) *v1alpha1.WorkloadAutoscalerSpec
}{
	{"autoscaling", "HorizontalPodAutoscaler", fromHPA},
	{"autoscaling.k8s.io", kindVPA, fromVPA},
	{"keda.sh", "ScaledObject", fromKEDA},
	{"custompodautoscaler.com", "CustomPodAutoscaler", fromPaper},
	{"datadoghq.com", "WatermarkPodAutoscaler", fromWatermark},
}

// Kinds names the kinds that are understood.
func Kinds() string {
	var names []string
	for _, k := range from {
		names = append(names, k.kind)
	}
	names = append(names, "kproximate's values")
	return strings.Join(names, ", ")
}

// Manifests converts the autoscalers in a YAML file of any number of documents and lists. What else
// there is in it is returned by name. The error is that of the file, or those of all results.
func Manifests(data []byte, o Options) (results []Result, others []string, err error) {
	objects, err := resources.Objects(data)
	if err != nil {
		return nil, nil, err
	}
	schema, err := readSchema()
	if err != nil {
		return nil, nil, err
	}
	var faults []error
	type other struct {
		name   string
		object map[string]any
	}
	var unknown []other
	around := &around{readAuthentications(objects), readScaled(objects)}
	for _, object := range objects {
		switch r, known := convert(object, o, around); {
		case known:
			results, faults = append(results, r), append(faults, r.Fault)
		default:
			unknown = append(unknown, other{r.From, object})
		}
	}
	results = merge(results)
	for i := range results {
		r := &results[i]
		if r.Fault == nil {
			r.Fault = r.checked(schema)
			faults = append(faults, r.Fault)
		}
		if r.Fault != nil {
			r.To, r.Pool, r.Lost, r.Notes = nil, nil, nil, nil
		}
	}
	for _, o := range unknown {
		if !around.used(o.object) { // wherever in the file that is
			others = append(others, o.name)
		}
	}
	return results, others, errors.Join(faults...)
}

// around is what of a file is read with the autoscalers in it.
type around struct {
	auths  authentications
	scaled map[string]*scaled // by scaleKey
}

// used reports whether an object was read with an autoscaler that names it.
func (a *around) used(object map[string]any) bool {
	workload := a.scaled[workloadKey(object)]
	return a.auths.used(object) || workload != nil && workload.named
}

// checked finds what makes no sense in what was made.
func (r *Result) checked(schema *resources.Schema) error {
	switch {
	case r.Pool != nil:
		return r.checkPool()
	case r.To != nil:
		return r.check(schema)
	}
	return nil
}

// readSchema reads the schema once: the CRD is long.
var readSchema = sync.OnceValues(func() (*resources.Schema, error) {
	return resources.ReadSchema(v1alpha1.KindWorkloadAutoscaler)
})

// convert converts one object, if it is an autoscaler.
func convert(object map[string]any, o Options, a *around) (r Result, known bool) {
	m := tree{"", object, &reading{read: map[string]bool{}, source: map[string]string{}, around: a, auths: a.auths}}
	if values, is := kproximate(m); is {
		r.From = "kproximate's values"
		r.Pool = fromKproximate(values)
		values.leftover()
		r.Lost, r.Notes, r.source = m.lost, m.notes, m.source
		r.Fault = r.named(m.err())
		return r, true
	}
	version, kind := m.at("apiVersion").text(), m.at("kind").text()
	name, namespace := m.at("metadata").at("name").word(), m.at("metadata").at("namespace").text()
	m.namespace = namespace
	r.From = cmp.Or(kind, "an object without a kind") + " " + strings.TrimPrefix(namespace+"/"+name, "/")
	group, _, _ := strings.Cut(version, "/")
	for _, k := range from {
		if k.group != group || k.kind != kind {
			continue
		}
		r.To = &v1alpha1.WorkloadAutoscaler{}
		r.To.APIVersion, r.To.Kind = v1alpha1.GroupVersion.String(), v1alpha1.KindWorkloadAutoscaler
		r.To.Name, r.To.Namespace = m.at("metadata").at("name").needed(), namespace
		r.To.Labels = metadata(m.at("metadata"))
		m.at("status").skip()
		spec := k.convert(m, o)
		if spec != nil {
			m.leftover()
		}
		r.To.Annotations = m.annotations
		r.Lost, r.Notes, r.source = m.lost, m.notes, m.source
		r.Fault = r.named(m.err())
		if spec == nil {
			r.To = nil
		} else {
			r.To.Spec = *spec // with a fault, too: what sizes its target goes with it
		}
		return r, true
	}
	return r, false
}

// check finds what makes no sense in what was made: it was wrong before. Most rules are known to
// both of those that are asked, and one answer is enough.
func (r *Result) check(schema *resources.Schema) error {
	a := *r.To
	a.Namespace = cmp.Or(a.Namespace, "default") // it is that of whoever applies it
	_, _, _, err := resources.Autoscaler(&a)
	if err == nil {
		_, err = resources.Rightsize(&a)
	}
	if err == nil {
		err = schema.Check(r.To)
	}
	if err != nil {
		return r.named(r.bySource(err))
	}
	return nil
}

// checkPool does so for a VMPool.
func (r *Result) checkPool() error {
	schema, err := resources.ReadSchema(v1alpha1.KindVMPool)
	if err != nil {
		return err
	}
	if _, err = resources.Pool(r.Pool); err == nil {
		err = schema.Check(r.Pool)
	}
	if err != nil {
		return r.named(r.bySource(err))
	}
	return nil
}

// bySource names faults of what was made by the manifest's keys, where these are called otherwise.
func (r *Result) bySource(err error) error {
	joined, several := err.(interface{ Unwrap() []error })
	if !several {
		key, rule, _ := strings.Cut(err.Error(), ": ")
		for head, tail := key, ""; head != ""; {
			if source, known := r.source[head]; known {
				return fmt.Errorf("%s%s: %s", source, tail, rule)
			}
			head = head[:max(strings.LastIndexAny(head, ".["), 0)]
			tail = key[len(head):]
		}
		return err
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, r.bySource(e))
	}
	return errors.Join(all...)
}

// named puts what is converted before each of its faults.
func (r *Result) named(err error) error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", r.From, err)
	}
	var all []error
	for _, e := range joined.Unwrap() {
		all = append(all, fmt.Errorf("%s: %w", r.From, e))
	}
	return errors.Join(all...)
}

// served are the keys of metadata that the API server writes.
var served = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"}

// tracked reports whether a label or annotation is of a tool that deploys objects. With it, that
// tool would take what is made for its own, and delete it as something that is not in its source.
func tracked(key, value string) bool {
	switch domain, _, _ := strings.Cut(key, "/"); domain {
	case "argocd.argoproj.io", "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io", "helm.sh", "meta.helm.sh":
		return true
	}
	return key == "app.kubernetes.io/instance" || key == "app.kubernetes.io/managed-by" && value == "Helm"
}

// metadata returns the labels. Annotations are for whoever reads that kind of object.
func metadata(m tree) map[string]string {
	for _, key := range served {
		m.at(key).skip()
	}
	m.at("annotations").at("kubectl.kubernetes.io/last-applied-configuration").skip()
	for _, key := range []string{"ownerReferences", "finalizers"} {
		m.at(key).lose("belongs to the object that it is in, and to the owner of that")
	}
	var omitted []string
	omit := func(at tree, key string) bool {
		value, _ := at.at(key).value.(string)
		is := tracked(key, value)
		if is {
			at.at(key).skip()
			omitted = append(omitted, key)
		}
		return is
	}
	labels := map[string]string{}
	for _, key := range m.at("labels").keys() {
		if !omit(m.at("labels"), key) {
			labels[key] = m.at("labels").at(key).text()
		}
	}
	for _, key := range m.at("annotations").keys() {
		omit(m.at("annotations"), key)
	}
	if len(omitted) > 0 {
		m.note("%s: not taken over, since the tool that deploys the original would take this object for its own, and may delete it", strings.Join(omitted, ", "))
	}
	if len(labels) == 0 {
		return nil
	}
	return labels
}

// target reads what is scaled. Deployment and its like are in apps/v1 where nothing else is said.
func target(t tree, kind string) v1alpha1.ScaleTargetRef {
	ref := v1alpha1.ScaleTargetRef{APIVersion: t.at("apiVersion").text(), Kind: t.at("kind").text(), Name: t.at("name").needed()}
	if ref.Kind == "" {
		if ref.Kind = kind; kind == "" {
			t.at("kind").fault("must be there", "nothing")
		}
	}
	if ref.APIVersion != "" {
		return ref
	}
	switch ref.Kind {
	case "Deployment", "StatefulSet", "ReplicaSet":
		ref.APIVersion = "apps/v1"
	case "ReplicationController":
		ref.APIVersion = "v1"
	default:
		t.at("apiVersion").fault("must be there for a kind that is not Kubernetes' own", "nothing")
	}
	return ref
}

// duration writes a duration as the API takes it.
func duration(d time.Duration) v1alpha1.Duration {
	var out strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}, {time.Millisecond, "ms"}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&out, "%d%s", n, unit.name)
			d -= n * unit.size
		}
	}
	return v1alpha1.Duration(cmp.Or(out.String(), "0s"))
}
