package sight

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/written"
)

// deviced has nodes n-1 and n-2, the pods, and claims and templates by name in namespace shop.
func deviced(t *testing.T, claims, templates map[string]string, pods ...string) *Objects {
	t.Helper()
	o := &Objects{DeviceClaims: []*resourcev1.ResourceClaim{}, DeviceTemplates: []*resourcev1.ResourceClaimTemplate{}}
	for i := range 2 {
		o.Nodes = append(o.Nodes, written.Object[corev1.Node](t, fmt.Sprintf(`{metadata: {name: n-%d}}`, i+1)))
	}
	for name, text := range claims {
		o.DeviceClaims = append(o.DeviceClaims, written.Object[resourcev1.ResourceClaim](t, fmt.Sprintf("{metadata: {name: %s, namespace: shop}, %s}", name, text)))
	}
	for name, text := range templates {
		o.DeviceTemplates = append(o.DeviceTemplates, written.Object[resourcev1.ResourceClaimTemplate](t, fmt.Sprintf("{metadata: {name: %s, namespace: shop}, spec: {%s}}", name, text)))
	}
	for _, text := range pods {
		o.Pods = append(o.Pods, written.Object[corev1.Pod](t, text))
	}
	return o
}

func requesting(request string) string {
	return "spec: {devices: {requests: [{name: r, " + request + "}]}}"
}

func TestResourceClaims(t *testing.T) {
	const (
		named   = "{metadata: {name: %s, namespace: shop}, spec: {%s resourceClaims: [{name: gpu, resourceClaimName: c}]}}"
		one     = "exactly: {deviceClassName: gpu}"
		at1     = ", status: {allocation: {nodeSelector: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [n-1]}]}]}}}"
		gpus    = nodescaler.DeviceClass + "gpu"
		counted = "; " + gpus + ":1"
	)
	a, b := fmt.Sprintf(named, "a", ""), fmt.Sprintf(named, "b", "")
	onNode := func(name string) string {
		return strings.Replace(fmt.Sprintf(named, name, "nodeName: n-1,"), "shop}", "shop, annotations: {"+kept.AnnotationSafeToEvict+": 'true'}}", 1)
	}
	own := func(status string) string {
		return "{metadata: {name: a, namespace: shop}, spec: {resourceClaims: [{name: gpu, resourceClaimTemplateName: t}]}" + status + "}"
	}
	const made = ", status: {resourceClaimStatuses: [{name: gpu, resourceClaimName: c}]}"
	for _, c := range []struct {
		name              string
		claims, templates map[string]string
		pods              []string
		want, another     string // of the last pod
	}{
		{name: "one device", claims: map[string]string{"c": requesting(one)}, pods: []string{a}, want: counted, another: "which has none yet"},
		{name: "three of two classes", pods: []string{a},
			claims: map[string]string{"c": "spec: {devices: {requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}, {name: s, exactly: {deviceClassName: nic}}]}}"},
			want:   "; " + gpus + ":2 " + nodescaler.DeviceClass + "nic:1", another: "which has none yet"},
		{name: "a claim that is not there", pods: []string{a}, want: "which does not exist", another: "which has none yet"},
		{name: "alternatives", claims: map[string]string{"c": requesting("firstAvailable: [{name: x, deviceClassName: gpu}]")}, pods: []string{a},
			want: "whose request r lists alternatives", another: "which has none yet"},
		{name: "an expression", claims: map[string]string{"c": requesting("exactly: {deviceClassName: gpu, selectors: [{cel: {expression: 'true'}}]}")}, pods: []string{a},
			want: "whose request r selects devices by an expression", another: "which has none yet"},
		{name: "all", claims: map[string]string{"c": requesting("exactly: {deviceClassName: gpu, allocationMode: All}")}, pods: []string{a},
			want: "is for all devices of a node", another: "which has none yet"},
		{name: "admin access", claims: map[string]string{"c": requesting("exactly: {deviceClassName: gpu, adminAccess: true}")}, pods: []string{a},
			want: "is for admin access", another: "which has none yet"},
		{name: "a part", claims: map[string]string{"c": requesting("exactly: {deviceClassName: gpu, capacity: {requests: {memory: 1Gi}}}")}, pods: []string{a},
			want: "is for a part of a device", another: "which has none yet"},
		{name: "constraints", claims: map[string]string{"c": "spec: {devices: {constraints: [{matchAttribute: d/numa}], requests: [{name: r, exactly: {deviceClassName: gpu, count: 2}}]}}"},
			pods: []string{a}, want: "which constrains its devices", another: "which has none yet"},
		{name: "constraints of one device", claims: map[string]string{"c": "spec: {devices: {constraints: [{matchAttribute: d/numa}], requests: [{name: r, " + one + "}]}}"},
			pods: []string{a}, want: counted, another: "which has none yet"},
		{name: "of two that wait the first counts", claims: map[string]string{"c": requesting(one)}, pods: []string{a, b}, want: "which pod shop/a gets first", another: "which has none yet"},
		{name: "allocated devices are on their node", claims: map[string]string{"c": requesting(one) + at1}, pods: []string{a}, want: "metadata.name=n-1" + counted, another: "metadata.name=n-1; "},
		{name: "a pod on a node has them", claims: map[string]string{"c": requesting(one) + at1}, pods: []string{onNode("a")}, want: counted, another: "metadata.name=n-1; "},
		{name: "a second one goes where the first is", claims: map[string]string{"c": requesting(one) + at1}, pods: []string{onNode("a"), b}, want: "metadata.name=n-1; ", another: "metadata.name=n-1; "},
		{name: "two on a node stay", claims: map[string]string{"c": requesting(one) + at1}, pods: []string{onNode("a"), onNode("b")}, want: "shares the devices of resource claim c with other pods", another: "metadata.name=n-1; "},
		{name: "on any node", claims: map[string]string{"c": requesting(one) + ", status: {allocation: {}}"}, pods: []string{a}, want: counted, another: "; "},
		{name: "its own, to be made", templates: map[string]string{"t": requesting(one)}, pods: []string{own("")}, want: counted, another: counted},
		{name: "its own, made", claims: map[string]string{"c": requesting(one)}, templates: map[string]string{"t": requesting(one)}, pods: []string{own(made)}, want: counted, another: counted},
		{name: "its own, allocated", claims: map[string]string{"c": requesting(one) + at1}, templates: map[string]string{"t": requesting(one)}, pods: []string{own(made)},
			want: "metadata.name=n-1" + counted, another: counted},
		{name: "its own, not needed", pods: []string{own(", status: {resourceClaimStatuses: [{name: gpu}]}")}, want: "; ", another: "; "},
		{name: "a template that is not there", pods: []string{own("")}, want: "which does not exist", another: "which does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Read(deviced(t, c.claims, c.templates, c.pods...))
			p := &s.Pods[len(s.Pods)-1]
			another := nodescaler.Claims{Volumes: p.Volumes, Selector: p.Selector, Extra: p.Extra}
			if got := asked(another) + p.Pinned; !strings.Contains(got, c.want) {
				t.Errorf("it asks for %q, want %q", got, c.want)
			}
			if p.Another != nil {
				another = *p.Another
			}
			if got := asked(another); !strings.Contains(got, c.another) {
				t.Errorf("another would ask for %q, want %q", got, c.another)
			}
		})
	}
	o := deviced(t, nil, nil, a)
	o.DeviceClaims = nil
	if why := Read(o).Pods[0].Selector[nodescaler.SelectNowhere]; !strings.Contains(why, "which are not known") {
		t.Errorf("with claims that cannot be read it asks for %q", why)
	}
}

func asked(c nodescaler.Claims) string {
	if why := c.Selector[nodescaler.SelectNowhere]; why != "" {
		return why
	}
	text := ""
	for _, v := range c.Volumes {
		text += v.String()
	}
	text += ";"
	for _, x := range c.Extra {
		text += fmt.Sprintf(" %s:%d", x.Name, x.N)
	}
	if len(c.Extra) == 0 {
		text += " "
	}
	return text
}

// Drivers publish devices in slices, of which those of the latest generation count.
func TestPublishedDevices(t *testing.T) {
	o := deviced(t, nil, nil)
	for _, text := range []string{
		"{nodeName: n-1, driver: d, pool: {name: n-1, generation: 2}, devices: [{name: a}, {name: b}]}",
		"{nodeName: n-1, driver: d, pool: {name: n-1, generation: 2}, devices: [{name: c}]}",
		"{nodeName: n-1, driver: d, pool: {name: n-1, generation: 1}, devices: [{name: old}]}",
		"{nodeName: n-1, driver: nic, pool: {name: n-1, generation: 1}, devices: [{name: nic}]}",
		"{allNodes: true, driver: net, pool: {name: net, generation: 1}, devices: [{name: x}]}",
	} {
		o.DeviceSlices = append(o.DeviceSlices, written.Object[resourcev1.ResourceSlice](t, "{spec: "+text+"}"))
	}
	if s := Read(o); s.Nodes[0].Devices != 4 || s.Nodes[1].Devices != 0 {
		t.Errorf("devices are %d and %d, want 4 and 0", s.Nodes[0].Devices, s.Nodes[1].Devices)
	}
}
