package operator

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/approval"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// face is what an object shows of what the town has. It is compared, so that objects are written
// only when something changed.
type face any

type (
	podFace struct {
		node, phase           string
		ready, refused, unfit bool
		ends, started         int64
		asks                  pricing.Resources
	}
	nodeFace struct {
		ready, cordoned, draining, marked, held bool
		since                                   int64
	}
	serviceFace struct{ replicas, pods, updated, allowed int }
)

type raw = map[string]any

// settle makes what is there from the beginning.
func (a *apiServer) settle() error {
	for _, m := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: shop}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: plimsoll}}",
		"{apiVersion: v1, kind: Namespace, metadata: {name: kube-system}}",
		"{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: -10}",
	} {
		if err := a.server.Apply(m); err != nil {
			return err
		}
	}
	for _, s := range a.services {
		_, name, _ := strings.Cut(s.name, "/")
		for _, m := range []string{`
{apiVersion: apps/v1, kind: Deployment, metadata: {name: %[1]s, namespace: shop, uid: d-%[1]s},
  spec: {replicas: %[2]d, selector: {matchLabels: {app: %[1]s}}, template: {metadata: {labels: {app: %[1]s}}}}}`, `
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: %[1]s, namespace: shop, uid: rs-%[1]s,
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: %[1]s, uid: d-%[1]s, controller: true}]}}`, `
{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: %[1]s, namespace: shop},
  spec: {minAvailable: %[3]d, selector: {matchLabels: {app: %[1]s}}}}`} {
			if err := a.server.Apply(fmt.Sprintf(strings.ReplaceAll(m, "%[3]d", fmt.Sprint(s.available)), name, s.replicas)); err != nil {
				return err
			}
		}
		a.server.Change("deployments.apps", s.name, func(o raw) {
			at(o, "spec", "template")["spec"] = a.podSpec(&townPod{of: s, asks: s.asks})
		})
	}
	return nil
}

// at is a part of an object, which is made if it is not there.
func at(o raw, path ...string) raw {
	for _, key := range path {
		next, ok := o[key].(raw)
		if !ok {
			next = raw{}
			o[key] = next
		}
		o = next
	}
	return o
}

// show has the server hold what the town has, and waits until all who watch have seen it.
func (a *apiServer) show() {
	now := a.sim.Now()
	kept := map[string]bool{}
	for _, n := range a.nodes {
		kept["nodes "+n.Name] = true
		a.showNode(n, now)
	}
	used := map[string]podscaler.Sample{}
	for _, p := range a.pods {
		kept["pods "+p.name] = true
		if is := a.showPod(p, now); is.CPU.Known {
			used[p.name] = is.CPU
		}
	}
	a.used.Store(&used)
	for _, s := range a.services {
		a.showService(s)
	}
	for name, o := range a.autoscalers {
		a.showOurs("workloadautoscalers", name, v1alpha1.KindWorkloadAutoscaler, &o.ObjectMeta, o.Spec)
	}
	for name, o := range a.pools {
		a.showOurs("vmpools", name, v1alpha1.KindVMPool, &o.ObjectMeta, o.Spec)
	}
	for name, o := range a.books {
		a.showOurs("pricebooks", name, v1alpha1.KindPriceBook, &o.ObjectMeta, o.Spec)
	}
	for key := range a.faces {
		if kind, name, _ := strings.Cut(key, " "); (kind == "nodes" || kind == "pods") && !kept[key] {
			a.forget(kind, name)
		}
	}
}

// forget removes an object, whoever has a finalizer in it.
func (a *apiServer) forget(kind, name string) {
	delete(a.faces, kind+" "+name)
	a.server.Remove(kind, name)
}

// lose removes an object that is made anew: that it was deleted is not read as another's doing.
func (a *apiServer) lose(kind, name string) {
	a.take()
	a.forget(kind, name)
	a.read[kind] = len(a.server.History(kind))
}

// put shows a new object.
func (a *apiServer) put(apiVersion, kind string, o raw) {
	o["apiVersion"], o["kind"] = apiVersion, kind
	text, err := json.Marshal(o)
	if err == nil {
		o = raw{}
		if err = json.Unmarshal(text, &o); err == nil {
			err = a.server.Put(o)
		}
	}
	if err != nil {
		a.fault("%s: %v", kind, err)
	}
}

func (a *apiServer) showNode(n *townNode, now time.Time) {
	is := nodeFace{ready: n.Ready, cordoned: n.Cordoned, draining: n.Draining, marked: n.marked, held: now.Before(a.holding[n.Name]), since: n.ready.Unix()}
	key := "nodes " + n.Name
	was, there := a.faces[key].(nodeFace)
	if there && was == is {
		return
	}
	a.faces[key] = is
	if !there {
		a.put("v1", "Node", raw{
			"metadata": raw{"name": n.Name, "labels": raw{"kubernetes.io/hostname": n.Name}},
			"spec":     raw{"providerID": n.ProviderID},
		})
	}
	ready, since := "True", n.ready
	if !n.Ready {
		ready, since = "Unknown", n.lost
	}
	a.server.Change("nodes", n.Name, func(o raw) {
		if n.Cordoned {
			at(o, "spec")["unschedulable"] = true
		} else {
			delete(at(o, "spec"), "unschedulable")
		}
		if delete(at(o, "spec"), "taints"); n.marked {
			at(o, "spec")["taints"] = []any{raw{"key": taintOfAutoscaler, "effect": "NoSchedule"}}
		}
		if !n.Draining {
			delete(at(o, "metadata", "annotations"), "plimsoll.dev/draining")
		}
		if delete(at(o, "metadata"), "finalizers"); is.held {
			at(o, "metadata")["finalizers"] = []any{"example.com/detach"}
		}
		o["status"] = raw{
			"nodeInfo":    raw{"systemUUID": n.SystemUUID},
			"allocatable": raw{"cpu": fmt.Sprintf("%dm", n.Allocatable.CPU), "memory": fmt.Sprint(int64(n.Allocatable.Memory)), "pods": "110"},
			"conditions":  []any{raw{"type": "Ready", "status": ready, "lastTransitionTime": stamp(since)}},
		}
	})
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// showPod shows a pod, and returns how it is read.
func (a *apiServer) showPod(p *townPod, now time.Time) nodescaler.Pod {
	s := a.shown(p, now)
	is := podFace{
		node: p.node, phase: string(s.Phase), ready: s.Ready, refused: p.refused, unfit: p.infeasible, asks: p.asks, started: p.starts.Unix(),
	}
	if !p.ends.IsZero() {
		is.ends = p.ends.Unix()
	}
	key := "pods " + p.name
	was, there := a.faces[key].(podFace)
	if there && was == is {
		return s
	}
	a.faces[key] = is
	if !there {
		a.newPod(p)
	}
	a.server.Change("pods", p.name, func(o raw) {
		if p.node != "" {
			at(o, "spec")["nodeName"] = p.node
		}
		if m := at(o, "metadata"); !p.ends.IsZero() && m["deletionTimestamp"] == nil {
			m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = stamp(p.ends), int64(5)
		}
		o["status"] = podStatus(p, &s)
	})
	return s
}

func podStatus(p *townPod, s *nodescaler.Pod) raw {
	conditions := []any{}
	add := func(kind string, is bool, why string, since time.Time) {
		c := raw{"type": kind, "status": map[bool]string{true: "True", false: "False"}[is], "lastTransitionTime": stamp(since)}
		if why != "" {
			c["reason"] = why
		}
		conditions = append(conditions, c)
	}
	if p.refused {
		add("PodScheduled", false, "Unschedulable", p.created)
	}
	status := raw{"phase": string(s.Phase)}
	if s.Phase == podscaler.Running {
		status["startTime"] = stamp(s.Started)
		add("Ready", s.Ready, "", s.ReadyChanged)
		size := raw{"requests": requestsOf(p.asks)}
		status["containerStatuses"] = []any{raw{"name": "app", "ready": s.Ready, "allocatedResources": requestsOf(p.asks), "resources": size}}
	}
	if p.infeasible {
		add("PodResizePending", true, "Infeasible", p.created)
	}
	status["conditions"] = conditions
	return status
}

func requestsOf(r pricing.Resources) raw {
	return raw{"cpu": fmt.Sprintf("%dm", r.CPU), "memory": fmt.Sprint(int64(r.Memory))}
}

func (a *apiServer) newPod(p *townPod) {
	namespace, name, _ := strings.Cut(p.name, "/")
	meta := raw{"name": name, "namespace": namespace}
	if of := strings.TrimPrefix(p.of.name, "shop/"); of != "" {
		meta["labels"] = raw{"app": of}
		meta["ownerReferences"] = []any{raw{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": of, "uid": "rs-" + of, "controller": true}}
	}
	a.put("v1", "Pod", raw{"metadata": meta, "spec": a.podSpec(p), "status": raw{"phase": "Pending"}})
}

// podSpec is a pod's spec. What odd pods ask for is said as far as manifests can.
func (a *apiServer) podSpec(p *townPod) raw {
	said := nodescaler.Pod{Requests: p.asks}
	if p.odd != nil {
		p.odd(&said)
	}
	requests := requestsOf(said.Requests)
	for _, extra := range said.Extra {
		requests[extra.Name] = fmt.Sprint(extra.N)
	}
	spec := raw{"containers": []any{raw{"name": "app", "image": "app", "resources": raw{"requests": requests}}}}
	if said.Priority != 0 {
		spec["priority"] = int64(said.Priority)
	}
	if _, nowhere := said.Selector[nodescaler.SelectNowhere]; nowhere {
		spec["resourceClaims"] = []any{raw{"name": "device", "resourceClaimName": "none"}}
	} else if said.Selector != nil {
		spec["nodeSelector"] = said.Selector
	}
	if said.Volumes != nil {
		spec["volumes"] = []any{raw{"name": "data", "persistentVolumeClaim": raw{"claimName": "none"}}}
	}
	for _, t := range said.Topology {
		spec["topologySpreadConstraints"] = []any{raw{
			"topologyKey": t.Key, "maxSkew": int64(t.Skew), "whenUnsatisfiable": "DoNotSchedule", "labelSelector": raw{"matchLabels": raw{"app": "x"}},
		}}
	}
	if p.of.apart {
		app := raw{"matchLabels": raw{"app": strings.TrimPrefix(p.of.name, "shop/")}}
		spec["affinity"] = raw{"podAntiAffinity": raw{"requiredDuringSchedulingIgnoredDuringExecution": []any{
			raw{"topologyKey": "kubernetes.io/hostname", "labelSelector": app},
		}}}
	}
	return spec
}

// showService has people's and controllers' words about a Deployment and its budget be there.
func (a *apiServer) showService(s *service) {
	is := serviceFace{replicas: s.replicas, allowed: max(0, a.ready(s)-s.available)}
	if a.stuck {
		is.allowed = 0
	}
	for _, p := range a.pods {
		if p.of == s && p.ends.IsZero() {
			if is.pods++; p.version == s.version {
				is.updated++
			}
		}
	}
	key := "services " + s.name
	was, _ := a.faces[key].(serviceFace)
	if was == is {
		a.allow(s, is.allowed)
		return
	}
	a.faces[key] = is
	a.server.Change("deployments.apps", s.name, func(o raw) {
		if spec := at(o, "spec"); spec["replicas"] != int64(s.replicas) {
			spec["replicas"] = int64(s.replicas)
			at(o, "metadata")["managedFields"] = []any{raw{
				"manager": "kubectl", "operation": "Update", "apiVersion": "apps/v1", "time": stamp(a.sim.Now()),
				"fieldsType": "FieldsV1", "fieldsV1": raw{"f:spec": raw{"f:replicas": raw{}}},
			}}
		}
		o["status"] = raw{"replicas": int64(is.pods), "updatedReplicas": int64(is.updated), "observedGeneration": at(o, "metadata")["generation"]}
	})
	a.allow(s, is.allowed)
}

// allow sets how many pods of a service may be disrupted, of which evictions have taken some.
func (a *apiServer) allow(s *service, n int) {
	if at(a.server.Get("poddisruptionbudgets.policy", s.name), "status")["disruptionsAllowed"] == int64(n) {
		return
	}
	a.server.Change("poddisruptionbudgets.policy", s.name, func(o raw) {
		o["status"] = raw{"disruptionsAllowed": int64(n), "observedGeneration": at(o, "metadata")["generation"]}
	})
}

// showOurs shows what people want in one of our own objects.
func (a *apiServer) showOurs(resource, key, kind string, meta *metav1.ObjectMeta, spec any) {
	text, err := json.Marshal([]any{meta.Annotations, spec})
	if err != nil {
		a.fault("%s %s: %v", kind, key, err)
		return
	}
	face := resource + " " + key
	was, there := a.faces[face]
	if there && was == string(text) {
		return
	}
	a.faces[face] = string(text)
	if !there {
		a.put(v1alpha1.GroupVersion.String(), kind, raw{
			"metadata": raw{"name": meta.Name, "namespace": meta.Namespace, "uid": meta.UID, "annotations": meta.Annotations}, "spec": spec,
		})
		return
	}
	var is []any
	if err := json.Unmarshal(text, &is); err != nil {
		a.fault("%s %s: %v", kind, key, err)
		return
	}
	a.server.Change(resource+".plimsoll.dev", key, func(o raw) {
		at(o, "metadata")["annotations"], o["spec"] = is[0], is[1]
		if is[0] == nil {
			delete(at(o, "metadata"), "annotations")
		}
	})
}

// proposals is the kind of what people are asked.
const proposals = "scalingproposals.plimsoll.dev"

// proposal edits a proposal that is still as it was seen, and reports whether it is.
func (a *apiServer) proposal(p *approval.Proposal, edit func(spec raw)) (is bool) {
	a.server.Change(proposals, p.Namespace+"/"+p.Name, func(o raw) {
		if is = at(o, "metadata")["resourceVersion"] == p.Version; is {
			edit(at(o, "spec"))
		}
	})
	return is
}

// answer has a person answer a proposal.
func (a *apiServer) answer(p *approval.Proposal, yes bool) bool {
	says := map[bool]v1alpha1.ApprovalDecision{true: v1alpha1.Approved, false: v1alpha1.Rejected}[yes]
	return a.proposal(p, func(spec raw) { spec["approval"] = raw{"decision": string(says), "by": "ann"} })
}

// tamper has someone change a proposal that nothing is done by yet, and approve it.
func (a *apiServer) tamper(p *approval.Proposal) bool {
	return p.Phase == approval.ProposalOpen && a.proposal(p, func(spec raw) {
		at(spec, "proposed")["count"], at(spec, "proposed")["to"] = int64(p.Count+5), int64(p.To+5)
		spec["approval"] = raw{"decision": string(v1alpha1.Approved), "by": "mallory"}
	})
}

// forge has someone make a proposal that Plimsoll did not make, and approve it.
func (a *apiServer) forge(c *approval.Change) {
	a.put(v1alpha1.GroupVersion.String(), v1alpha1.KindScalingProposal, raw{
		"metadata": raw{"name": c.ProposalName(), "namespace": "plimsoll"},
		"spec": raw{
			"proposed": raw{
				"kind": c.Kind, "object": c.Object, "does": c.Does, "subject": c.Subject, "count": c.Count, "what": c.What,
				"pricePerHour": c.Price.String(), "made": stamp(c.Made), "until": stamp(c.Until),
			},
			"approval": raw{"decision": v1alpha1.Approved, "by": "mallory"},
		},
	})
}

// take takes over what clients wrote.
func (a *apiServer) take() {
	a.record()
	a.since("pods", func(kind, key string, o raw) {
		if i := slices.IndexFunc(a.pods, func(p *townPod) bool { return p.name == key }); i >= 0 {
			a.takePod(a.pods[i], kind, o)
		}
	})
	a.since("nodes", func(kind, key string, o raw) {
		if n := a.node(key); n == nil {
			return
		} else if kind != "DELETED" {
			_, n.Draining = at(o, "metadata", "annotations")["plimsoll.dev/draining"]
			n.Cordoned = at(o, "spec")["unschedulable"] == true
			was, _ := a.faces["nodes "+key].(nodeFace)
			was.cordoned, was.draining = n.Cordoned, n.Draining
			a.faces["nodes "+key] = was
			return
		}
		delete(a.faces, "nodes "+key)
		a.nodes = slices.DeleteFunc(a.nodes, func(n *townNode) bool { return n.Name == key })
	})
	a.since("workloadautoscalers.plimsoll.dev", func(_, key string, o raw) {
		if is := a.autoscalers[key]; is != nil && statusOf(o, &is.Status) {
			a.states(is.Status.Conditions, is.Status)
		}
	})
	a.since("vmpools.plimsoll.dev", func(_, key string, o raw) {
		if is := a.pools[key]; is != nil && statusOf(o, &is.Status) {
			a.states(is.Status.Conditions, is.Status)
		}
	})
}

// since goes through what has changed of a kind since the last time.
func (a *apiServer) since(kind string, see func(kind, key string, o raw)) {
	all := a.server.History(kind)
	for i := a.read[kind]; i < len(all); i++ {
		see(all[i].Type, all[i].Key, all[i].Object())
	}
	a.read[kind] = len(all)
}

func statusOf[T any](o raw, into *T) bool {
	is, ok := o["status"].(raw)
	if !ok {
		return false
	}
	var fresh T
	if runtime.DefaultUnstructuredConverter.FromUnstructured(is, &fresh) != nil {
		return false
	}
	*into = fresh
	return true
}

func (a *apiServer) states(all []metav1.Condition, status any) {
	hear(status)
	for _, c := range all {
		a.said["condition "+c.Type+" "+string(c.Status)]++
	}
}

func (a *apiServer) takePod(p *townPod, kind string, o raw) {
	leaves := kind == "DELETED" || at(o, "metadata")["deletionTimestamp"] != nil
	if leaves && p.ends.IsZero() {
		p.ends = a.sim.Now().Add(time.Duration(2+a.rng.IntN(28)) * time.Second)
	}
	if p.of.goingFirst == nil {
		p.of.goingFirst = map[string]bool{}
	}
	p.of.goingFirst[p.name] = at(o, "metadata", "annotations")["controller.kubernetes.io/pod-deletion-cost"] != nil
	containers, _ := at(o, "spec")["containers"].([]any)
	if len(containers) == 0 || p.odd != nil {
		return
	}
	wants := at(containers[0].(raw), "resources", "requests")
	size := pricing.Resources{CPU: pricing.MilliCPU(parsed(wants["cpu"]).MilliValue()), Memory: pricing.Bytes(parsed(wants["memory"]).Value())}
	if size == p.asks {
		p.infeasible = false
		return
	}
	n := a.node(p.node)
	if p.infeasible = n == nil || !a.fits(n, p, size); !p.infeasible {
		p.asks = size
	}
}

func parsed(v any) *resource.Quantity {
	text, _ := v.(string)
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return &resource.Quantity{}
	}
	return &q
}

// record notes what processes did to the cluster.
func (a *apiServer) record() {
	for _, s := range a.seats {
		all := s.client.Calls()
		for i := s.calls; i < len(all); i++ {
			c := &all[i]
			if c.Code >= http.StatusBadRequest || c.Was == nil {
				continue
			}
			switch is, was := c.Is, c.Was; {
			case c.Sub == "scale":
				n := int(at(is, "spec")["replicas"].(int64))
				if s := a.service(c.Key); s != nil {
					a.scaled(s, n)
					s.replicas = n
				}
				a.did = append(a.did, fmt.Sprintf("scale %s %d", c.Key, n))
			case c.Sub == "eviction" && at(was, "metadata")["deletionTimestamp"] == nil:
				a.did = append(a.did, "evict "+c.Key)
			case c.Kind == proposals && at(is, "status")["phase"] == string(approval.ProposalFollowed):
				a.said["proposal followed through the API"]++
			case c.Sub == "resize":
				a.did = append(a.did, "resize "+c.Key)
			case c.Kind == "nodes" && c.Method == http.MethodPatch:
				a.did = append(a.did, map[bool]string{true: "cordon ", false: "uncordon "}[at(is, "spec")["unschedulable"] == true]+c.Key)
			}
		}
		s.calls = len(all)
	}
}

// show and take are nothing where there is no API server.
func (l *life) show() {
	if l.api != nil {
		l.api.show()
		synctest.Wait()
	}
}

func (l *life) take() {
	if l.api != nil {
		l.api.take()
	}
}
