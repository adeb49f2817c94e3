package kept

import (
	"encoding/binary"
	"maps"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"time"
	"unique"
	"weak"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/podscaler"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
)

// common is what the pods of one template have in common. Tens of thousands of pods come from some
// hundred templates, and each would else keep a kilobyte of its own.
type common struct {
	// Form is what the pod says by itself, but for what is in Said.
	Form   nodescaler.Pod
	labels map[string]string
	owners []metav1.OwnerReference
	// containers are what the pod's containers ask for, each by itself.
	containers []rightsize.Container
	starts     []rightsize.Start
	// asks is the same as a HorizontalPodAutoscaler counts it.
	asks podscaler.Asks
	// Meant is the node that a daemon's pod waits for.
	Meant string
	// Apart are pods that it refuses to share a node with, and rules how it is spread over nodes
	// and zones.
	Apart []unique.Handle[PodTerm]
	Rules []rule
	// Prefers is what it would rather have of its node, by other pods; what it would by labels is
	// in Form.
	Prefers []preference
	// resize is how far the last change of its containers' requests has come.
	resize rightsize.ResizeState
	// resizeSince is since when it waits for room, if it does.
	resizeSince time.Time
}

// key is the same for two that are equal, and hardly ever for others.
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
	of map[string][]weak.Pointer[common]
}{of: map[string][]weak.Pointer[common]{}}

// maxAlike is how many of one key are compared: of more, each is held by its own pod alone.
const maxAlike = 16

// shared returns the one that equal ones share.
func (c *common) shared() *common {
	key := c.key()
	templates.Lock()
	defer templates.Unlock()
	alike := templates.of[key]
	for _, held := range alike {
		if is := held.Value(); is != nil && reflect.DeepEqual(is, c) {
			return is
		}
	}
	if len(alike) < maxAlike {
		templates.of[key] = append(alike, weak.Make(c))
		runtime.AddCleanup(c, forgetTemplate, key)
	}
	return c
}

func forgetTemplate(key string) {
	templates.Lock()
	defer templates.Unlock()
	templates.of[key] = slices.DeleteFunc(templates.of[key], func(p weak.Pointer[common]) bool { return p.Value() == nil })
	if len(templates.of[key]) == 0 {
		delete(templates.of, key)
	}
}
