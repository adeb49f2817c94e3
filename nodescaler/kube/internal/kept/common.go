package kept

import (
	"encoding/binary"
	"maps"
	"runtime"
	"slices"
	"sync"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// common is what the pods of one template have in common. Tens of thousands of pods come from some
// hundred templates, and each would else keep a map and two lists of its own.
type common struct {
	labels map[string]string
	owners []metav1.OwnerReference
	// containers are what the pod's containers ask for, each by itself.
	containers []rightsize.Container
	starts     []rightsize.Start
	// asks is the same as a HorizontalPodAutoscaler counts it.
	asks podscaler.Asks
}

// key is the same for two that are equal.
func (c *common) key() string {
	k := make([]byte, 0, 512)
	text := func(all ...string) {
		for _, s := range all {
			k = append(binary.AppendUvarint(k, uint64(len(s))), s...)
		}
	}
	number := func(all ...int64) {
		for _, n := range all {
			k = binary.AppendVarint(k, n)
		}
	}
	number(int64(len(c.labels)), int64(len(c.owners)), int64(len(c.containers)))
	for _, name := range slices.Sorted(maps.Keys(c.labels)) {
		text(name, c.labels[name])
	}
	for _, o := range c.owners { // of which keepMeta keeps the controller alone
		text(o.APIVersion, o.Kind, o.Name, string(o.UID))
	}
	for _, of := range c.containers {
		if text(of.Name); of.Sidecar {
			text("sidecar")
		}
		number(int64(of.Requests.CPU), int64(of.Requests.Memory), int64(of.Limits.CPU), int64(of.Limits.Memory))
		number(of.OOMStarted.UnixNano(), of.OOMEnded.UnixNano(), int64(len(of.Restarts)))
		for _, r := range of.Restarts {
			text(string(r))
		}
	}
	number(int64(len(c.starts)))
	for _, of := range c.starts {
		number(int64(of.Requests.CPU), int64(of.Requests.Memory), int64(of.Limits.CPU), int64(of.Limits.Memory), int64(of.Sidecars))
	}
	amounts := func(of map[string]int64) {
		number(int64(len(of)))
		for _, name := range slices.Sorted(maps.Keys(of)) {
			text(name)
			number(of[name])
		}
	}
	number(int64(len(c.asks.Containers)))
	for _, of := range c.asks.Containers {
		text(of.Name)
		amounts(of.Requests)
	}
	if c.asks.Whole != nil {
		amounts(c.asks.Whole)
	}
	return string(k)
}

// templates are all that pods have in common now. It holds none: with the last pod it goes.
var templates = struct {
	sync.Mutex
	of map[string]weak.Pointer[common]
}{of: map[string]weak.Pointer[common]{}}

// shared returns the one that equal ones share.
func (c *common) shared() *common {
	key := c.key()
	templates.Lock()
	defer templates.Unlock()
	if is := templates.of[key].Value(); is != nil {
		return is
	}
	templates.of[key] = weak.Make(c)
	runtime.AddCleanup(c, forgetTemplate, key)
	return c
}

func forgetTemplate(key string) {
	templates.Lock()
	defer templates.Unlock()
	if templates.of[key].Value() == nil { // no other has taken its place
		delete(templates.of, key)
	}
}
