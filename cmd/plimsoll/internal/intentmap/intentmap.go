// Package intentmap keeps a fleet's intents in a ConfigMap, so that whichever replica leads finds
// them, and so that one which leads no more can write none.
//
// Every write names the version of the ConfigMap that it rests on, and the API server takes only
// what rests on the newest. A new leader first writes its epoch: from then on a former holder of
// the ConfigMap is refused, finds another's epoch in it, and stops. That holds for any state of
// leases and clocks. An intent is a key of its own, so that keeping one is one short patch, and the
// ConfigMap never holds more than there is.
package intentmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/plimsoll/plimsoll/proxmox/intents"
)

// ErrFenced is what a writer gets, now and ever after, when another has claimed the ConfigMap or
// a client has deleted it.
var ErrFenced = errors.New("another has the intents now")

// The annotations that say whose the ConfigMap is.
const (
	annotationEpoch  = "plimsoll.dev/epoch"
	annotationHolder = "plimsoll.dev/holder"
)

const (
	// patience is how long a write may take. The fleet waits for it.
	patience = 5 * time.Second
	// tries are how often a write is tried against others who change something that is not ours,
	// such as a label.
	tries = 5
	// limit is what the API server takes in a ConfigMap's data, less some room for what it adds.
	limit = 1<<20 - 1<<14
	// forOrders is how much of that new orders may fill. The rest is for what the intents that
	// there are still have to say: each step of a machine adds to its own, giving it back most of
	// all, and what cannot be written is not done. In a full ConfigMap nothing could be reclaimed
	// to make room.
	forOrders = limit / 4 * 3
	// grown is what the intent of a machine that is a node comes to. It is shorter when the order
	// is taken.
	grown = 900
)

// Config says which ConfigMap it is, and who uses it.
type Config struct {
	Maps typedv1.ConfigMapInterface
	Name string
	// Holder names who claims it, for people who look. Two claims by the same are two.
	Holder string
	// Fenced is called once nothing will be kept any more: whoever works by the intents must
	// stop. It must not call the Map. Nil calls nothing.
	Fenced func(error)
}

// Map is the intents of one claim. It is a pve.Intents.
type Map struct {
	cfg   Config
	ctx   context.Context // of the claim: writes end with it
	epoch int64
	uid   types.UID // of the ConfigMap: another of the name counts its epochs anew

	mu      sync.Mutex
	version string
	kept    map[string]intents.Intent
	sizes   map[string]int
	size    int
	fenced  error
}

// Claim reads the intents and makes them the caller's own, for as long as ctx lives and no other
// client claims them. The ConfigMap is made if it is not there.
func Claim(ctx context.Context, cfg Config) (*Map, error) {
	m := &Map{cfg: cfg, ctx: ctx}
	for {
		seen, err := m.getOrCreate(ctx)
		if err != nil {
			return nil, fmt.Errorf("read intents: %w", err)
		}
		if err := m.take(seen); err != nil {
			return nil, fmt.Errorf("read intents: ConfigMap %s/%s: %w", seen.Namespace, seen.Name, err)
		}
		written, err := m.patch(ctx, map[string]any{
			"metadata": map[string]any{
				"resourceVersion": seen.ResourceVersion,
				"annotations":     map[string]string{annotationEpoch: strconv.FormatInt(m.epoch, 10), annotationHolder: cfg.Holder},
			},
		})
		switch {
		case err == nil:
			m.version = written.ResourceVersion
			return m, nil
		case !apierrors.IsConflict(err) || ctx.Err() != nil:
			return nil, fmt.Errorf("claim intents: %w", err)
		}
	}
}

// Look reads the intents as they are now, and claims nothing: what is put into what it returns is
// lost.
func Look(ctx context.Context, cfg Config) (*intents.Memory, error) {
	kept := &intents.Memory{}
	seen, err := cfg.Maps.Get(ctx, cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return kept, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read intents: %w", err)
	}
	m := &Map{cfg: cfg}
	if err := m.take(seen); err != nil {
		return nil, fmt.Errorf("read intents: ConfigMap %s/%s: %w", seen.Namespace, seen.Name, err)
	}
	for _, i := range m.kept {
		if err := kept.Put(i); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

// getOrCreate returns the ConfigMap as it is now, not as a cache remembers it.
func (m *Map) getOrCreate(ctx context.Context) (*corev1.ConfigMap, error) {
	for {
		seen, err := m.cfg.Maps.Get(ctx, m.cfg.Name, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return seen, err
		}
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: m.cfg.Name, Labels: map[string]string{"app.kubernetes.io/managed-by": "plimsoll"},
		}}
		seen, err = m.cfg.Maps.Create(ctx, made, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return seen, err
		}
	}
}

// take reads what the ConfigMap says, and the epoch that follows its.
func (m *Map) take(seen *corev1.ConfigMap) error {
	epoch := int64(0)
	if text, there := seen.Annotations[annotationEpoch]; there {
		var err error
		if epoch, err = strconv.ParseInt(text, 10, 64); err != nil || epoch < 0 {
			return fmt.Errorf("annotation %s: must be a number, was %q", annotationEpoch, text)
		}
	}
	m.epoch, m.uid = epoch+1, seen.UID
	m.kept, m.sizes, m.size = map[string]intents.Intent{}, map[string]int{}, 0
	for order, text := range seen.Data {
		var i intents.Intent
		if err := json.Unmarshal([]byte(text), &i); err != nil {
			return corrupt(seen, order, fmt.Errorf("must be an intent: %w", err))
		}
		if i.Order != order {
			return corrupt(seen, order, fmt.Errorf("must be the intent of that order, was of %q", i.Order))
		}
		m.note(order, &i, len(text))
	}
	return nil
}

// corrupt is what is wrong with a key, and how to go on without it.
func corrupt(seen *corev1.ConfigMap, key string, err error) error {
	in := fmt.Sprintf("kubectl -n %s ", seen.Namespace)
	return fmt.Errorf("data.%s: %w; keep a copy (%sget configmap %s -o yaml), then take the key out: %spatch configmap %s --type=json "+
		`-p '[{"op":"remove","path":"/data/%s"}]'; %s`, key, err, in, seen.Name, in, seen.Name, strings.NewReplacer("~", "~0", "/", "~1").Replace(key), intents.Lost)
}

// note remembers what is kept; nil is nothing any more.
func (m *Map) note(order string, i *intents.Intent, size int) {
	m.size += size - m.sizes[order]
	if i == nil {
		delete(m.kept, order)
		delete(m.sizes, order)
		return
	}
	m.kept[order], m.sizes[order] = *i, size
}

// Load returns the intents, by order.
func (m *Map) Load() ([]intents.Intent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []intents.Intent
	for _, order := range slices.Sorted(maps.Keys(m.kept)) {
		all = append(all, m.kept[order])
	}
	return all, nil
}

// Put keeps an intent in place of the one with the same order.
func (m *Map) Put(i intents.Intent) error {
	data, err := json.Marshal(i)
	if err != nil {
		return fmt.Errorf("keep intent: %w", err)
	}
	var again intents.Intent // what is remembered shares nothing with what the caller changes
	if err := json.Unmarshal(data, &again); err != nil {
		return fmt.Errorf("keep intent: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.full(&i, len(data)); err != nil {
		return fmt.Errorf("keep intent: ConfigMap %s: %w", m.cfg.Name, err)
	}
	text := string(data)
	if err := m.write(i.Order, &text); err != nil {
		return fmt.Errorf("keep intent: %w", err)
	}
	m.note(i.Order, &again, len(data))
	return nil
}

// full says that there is no room for an intent of that size. One that is new is an order, unless
// its machine was found: that is there whether or not it is written down.
func (m *Map) full(i *intents.Intent, size int) error {
	old, known := m.sizes[i.Order]
	if now := m.size + size - old; now > limit {
		return fmt.Errorf("must hold at most %d bytes, would be %d with %d intents", limit, now, len(m.kept)+1)
	}
	if known || i.Adopted {
		return nil
	}
	all := max(size, grown)
	for _, n := range m.sizes {
		all += max(n, grown)
	}
	if all > forOrders {
		return fmt.Errorf("must hold at most %d bytes for an order to be taken, would come to %d with %d intents", forOrders, all, len(m.kept)+1)
	}
	return nil
}

// Remove forgets the intent of an order.
func (m *Map) Remove(order string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.write(order, nil); err != nil {
		return fmt.Errorf("forget intent: %w", err)
	}
	m.note(order, nil, 0)
	return nil
}

// write sets or removes a key, if the ConfigMap is still ours.
func (m *Map) write(order string, text *string) error {
	if m.fenced != nil {
		return m.fenced
	}
	ctx, cancel := context.WithTimeout(m.ctx, patience)
	defer cancel()
	var err error
	for range tries {
		var written *corev1.ConfigMap
		written, err = m.patch(ctx, map[string]any{
			"metadata": map[string]any{"resourceVersion": m.version},
			"data":     map[string]any{order: text},
		})
		if err == nil {
			m.version = written.ResourceVersion
			return nil
		}
		if apierrors.IsNotFound(err) {
			return m.fence(fmt.Errorf("%w: ConfigMap %s was deleted", ErrFenced, m.cfg.Name))
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		if err := m.again(ctx); err != nil {
			return err
		}
	}
	return err
}

// again looks whether a write that was refused may be tried again: when what has changed is not
// whose the ConfigMap is. It may be our own write whose answer was lost.
func (m *Map) again(ctx context.Context) error {
	seen, err := m.cfg.Maps.Get(ctx, m.cfg.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return m.fence(fmt.Errorf("%w: ConfigMap %s was deleted", ErrFenced, m.cfg.Name))
	case err != nil:
		return err
	}
	if epoch := seen.Annotations[annotationEpoch]; seen.UID != m.uid || epoch != strconv.FormatInt(m.epoch, 10) {
		return m.fence(fmt.Errorf("%w: %s, with epoch %s after our %d", ErrFenced, seen.Annotations[annotationHolder], epoch, m.epoch))
	}
	m.version = seen.ResourceVersion
	return nil
}

func (m *Map) fence(err error) error {
	m.fenced = err
	if m.cfg.Fenced != nil {
		m.cfg.Fenced(err)
	}
	return err
}

func (m *Map) patch(ctx context.Context, change map[string]any) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	return m.cfg.Maps.Patch(ctx, m.cfg.Name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: "plimsoll"})
}
