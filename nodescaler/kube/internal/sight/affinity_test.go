package sight

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
	"github.com/plimsoll/plimsoll/pricing"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

func aNodeWith(name string, labels map[string]string) *nodescaler.Node {
	all := maps.Clone(labels)
	if all == nil {
		all = map[string]string{}
	}
	all["kubernetes.io/hostname"] = name
	return &nodescaler.Node{Name: name, Labels: all}
}

func TestPodsGoWhereTheirConstraintsLetThem(t *testing.T) {
	control := aNodeWith("control", map[string]string{"node-role.kubernetes.io/control-plane": ""})
	small := aNodeWith("small-1", map[string]string{"pool": "small", "zone": "a", "disk": "hdd"})
	large := aNodeWith("large-1", map[string]string{"pool": "large", "zone": "a", "disk": "ssd", "gen": "7"})
	places := map[string]*nodescaler.Node{
		"control": control, "small-1": small, "large-1": large,
		"new small": (&nodescaler.Pool{Labels: map[string]string{"pool": "small", "disk": "hdd"}}).NodeOn(pricing.Shape{}, "pve1"),
		"new large": (&nodescaler.Pool{Labels: map[string]string{"pool": "large", "disk": "ssd", "gen": "7"}}).NodeOn(pricing.Shape{}, "pve1"),
	}
	requires := func(terms string) string {
		return `spec: {nodeName: small-1, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}}`
	}
	var volumes []*kept.Volume
	for _, v := range []string{
		`{metadata: {name: v1}, spec: {claimRef: {namespace: shop, name: here}, local: {path: /d}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [small-1]}]}]}}}}`,
		`{metadata: {name: v2}, spec: {claimRef: {namespace: shop, name: zoned}, nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}}`,
	} {
		volumes = append(volumes, kept.ShortVolume(written.Object[corev1.PersistentVolume](t, v)))
	}
	rests := newStorage(volumes, nil, nil, nil, newDevices(nil, nil, nil, nil), nil)
	const all, nowhere = "control, large-1, new large, new small, small-1", ""
	for _, c := range []struct{ name, spec, want, pinned string }{
		{name: "nothing", spec: `spec: {nodeName: small-1}`, want: all},
		{name: "a value that none has", spec: requires(`{matchExpressions: [{key: disk, operator: In, values: [nvme]}]}`), want: nowhere},
		{name: "what all have", spec: requires(`{matchExpressions: [{key: kubernetes.io/os, operator: NotIn, values: [windows]}]}`), want: all},
		{name: "not on the control plane", spec: requires(`{matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}`), want: "large-1, new large, new small, small-1"},
		{name: "several values", spec: requires(`{matchExpressions: [{key: disk, operator: In, values: [ssd, nvme]}]}`), want: "large-1, new large"},
		{name: "greater", spec: requires(`{matchExpressions: [{key: gen, operator: Gt, values: ["6"]}]}`), want: "large-1, new large"},
		{name: "either of two", spec: requires(`{matchExpressions: [{key: gen, operator: Exists}]}, {matchExpressions: [{key: disk, operator: In, values: [hdd]}]}`), want: "large-1, new large, new small, small-1"},
		{name: "a node by name", spec: requires(`{matchFields: [{key: metadata.name, operator: In, values: [large-1]}]}`), want: "large-1"},
		{name: "any but a node", spec: requires(`{matchFields: [{key: metadata.name, operator: NotIn, values: [large-1]}]}`), want: "control, new large, new small, small-1"},
		{name: "a term that means nothing", spec: requires(`{matchExpressions: [{key: gen, operator: Gt, values: [seven]}]}, {matchExpressions: []}`), want: nowhere},
		{name: "a volume of one node", spec: `spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: here}}]}`, want: "small-1", pinned: "local storage: persistent volume v1 is on the node's own disk"},
		{name: "a volume of a zone", spec: `spec: {nodeSelector: {disk: ssd}, volumes: [{name: d, persistentVolumeClaim: {claimName: zoned}}]}`, want: "large-1"},
		{name: "a claim of which nothing is known", spec: `spec: {volumes: [{name: d, persistentVolumeClaim: {claimName: later}}]}`, want: all},
		{name: "two zones at once", spec: `spec: {nodeSelector: {zone: b}, volumes: [{name: d, persistentVolumeClaim: {claimName: zoned}}]}`, want: nowhere},
		{name: "a claim of a device", spec: `spec: {resourceClaims: [{name: gpu, resourceClaimName: gpu}]}`, want: nowhere},
		{name: "no neighbour, running", spec: `spec: {nodeName: small-1, affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {}}]}}}`, want: all},
		{name: "spread, running", spec: `spec: {nodeName: small-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}`, want: all},
		{name: "spread if it can be", spec: `spec: {nodeName: small-1, topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`, want: all},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := kept.ShortPod(written.Object[corev1.Pod](t, "metadata: {namespace: shop, name: a, "+written.Owned+"}\n"+c.spec))
			said := p.Says()
			rests.place(&said, p)
			var goes []string
			for _, name := range slices.Sorted(maps.Keys(places)) {
				if nodescaler.Accepts(&said, places[name]) == "" {
					goes = append(goes, name)
				}
			}
			if got := strings.Join(goes, ", "); got != c.want || said.Pinned != c.pinned {
				t.Errorf("pinned %q, want %q; goes to %q, want %q", said.Pinned, c.pinned, got, c.want)
			}
		})
	}
}
