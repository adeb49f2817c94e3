package draft

import (
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/sample"
	"github.com/plimsoll/plimsoll/pricing"
)

// A pool lacks a label that a pod selects where it has none of that name, or one with another
// value.
func TestWhichLabelsAPoolLacks(t *testing.T) {
	for _, c := range []struct {
		labels map[string]string
		want   string
	}{
		{nil, "disk=ssd"}, {map[string]string{"disk": "hdd"}, "disk=ssd"}, {map[string]string{"disk": "ssd"}, ""}, {map[string]string{"disk": "hdd", "zone": "a"}, "disk=ssd"},
	} {
		p := &nodescaler.Pod{Selector: map[string]string{"disk": "ssd"}}
		key, value, is := mislabelled(p, &nodescaler.Node{Labels: c.labels})
		if is != (c.want != "") || is && key+"="+value != c.want {
			t.Errorf("%v: %s=%s, %t", c.labels, key, value, is)
		}
	}
}

// What would help a pod depends on what its machines have too little of.
func TestWhatHelpsWhereSomethingIsShort(t *testing.T) {
	for name, want := range map[string]string{
		"nvidia.com/gpu":                       "nvidia.com/gpu among the resources of a pool",
		pricing.EphemeralStorage:               "a larger disk for pool w",
		nodescaler.AttachableVolumes + "a.csi": "take more volumes of a.csi",
	} {
		w := sample.New()
		x := nodescaler.NewIndex(&w.Snapshot)
		of := search{Draft: New(x)}
		o := of.without(name, &nodescaler.Pod{}, x.Pool("w"), sample.Small)
		if !strings.Contains(o.help, want) {
			t.Errorf("%s: %s, want %s", name, o.help, want)
		}
	}
}
