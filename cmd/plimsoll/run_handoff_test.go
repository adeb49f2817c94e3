package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/nodescaler/kube"
)

// What is said counts; where nothing is said, CapacityBuffers are published where
// cluster-autoscaler alone orders machines.
func TestHandOffFollowsFromThePartsThatRun(t *testing.T) {
	pods, nodes, provider := partPodScaler, partNodeScaler, partProvider
	buffers, none := kube.HandOff{By: kube.ByCapacityBuffer}, kube.HandOff{By: kube.ByNothing}
	for _, c := range []struct {
		parts []string
		said  *handOffSettings
		want  kube.HandOff
	}{
		{parts: []string{pods, provider}, want: buffers},
		{parts: []string{pods, provider, nodes}, want: none},
		{parts: []string{pods, nodes}, want: none},
		{parts: []string{pods}, want: none},
		{parts: []string{provider}, want: none},
		{parts: []string{pods}, said: &handOffSettings{By: kube.ByCapacityBuffer}, want: buffers},
		{parts: []string{pods, provider}, said: &handOffSettings{By: kube.ByNothing}, want: none},
		{
			parts: []string{pods, provider}, said: &handOffSettings{By: kube.ByPlaceholders},
			want: kube.HandOff{By: kube.ByPlaceholders, PriorityClass: "plimsoll-placeholder", Image: "registry.k8s.io/pause:3.10.1"},
		},
		{
			parts: []string{pods, provider}, said: &handOffSettings{By: kube.ByPlaceholders, PriorityClass: "low", Image: "mirror/pause"},
			want: kube.HandOff{By: kube.ByPlaceholders, PriorityClass: "low", Image: "mirror/pause"},
		},
	} {
		s := &siteFile{parts: c.parts}
		s.HandOff = c.said
		if diff := cmp.Diff(c.want, s.handOff()); diff != "" {
			t.Errorf("%v, said %+v, -want +got:\n%s", c.parts, c.said, diff)
		}
	}
}
