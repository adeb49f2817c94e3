package kubesim

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Server holds objects, and answers its clients.
type Server struct {
	seed uint64

	mu      sync.Mutex
	tables  map[string]*table // by id
	version int64
	made    int64 // objects, for their UIDs
	moved   chan struct{}
	streams map[*stream]bool
	pages   map[string][]*object // what a list that began will continue with
	clients []*Client
	nostart bool // streaming lists are unknown
}

// table holds the objects of a kind.
type table struct {
	Kind
	objects map[string]*object
	log     []Change // what watches are sent
	history []Change // the same, from the first object on
	floor   int64    // the log no longer goes back to this version
}

// object is one version of an object. It is never changed.
type object struct {
	raw     map[string]any
	key     string
	version int64
	text    []byte
}

// Change is an object that came, changed or went.
type Change struct {
	At      time.Time
	Type    string // ADDED, MODIFIED or DELETED
	Key     string
	Version int64
	UID     string
	is, was *object
}

// Object returns the object after the change, only to be read; of one that went, its last state.
func (c *Change) Object() map[string]any { return c.is.raw }

// New makes a server with these kinds besides Kubernetes' own.
func New(seed uint64, more ...Kind) *Server {
	s := &Server{
		seed: seed, version: 100, tables: map[string]*table{}, moved: make(chan struct{}), streams: map[*stream]bool{}, pages: map[string][]*object{},
	}
	for _, k := range append(Builtin(), more...) {
		s.tables[k.id()] = &table{Kind: k, objects: map[string]*object{}}
	}
	return s
}

// announce wakes all who wait for something to change. The caller holds the lock.
func (s *Server) announce() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// put stores the next version of an object. The caller holds the lock.
func (s *Server) put(t *table, key string, raw map[string]any) *object {
	was := t.objects[key]
	m := metaOf(raw)
	raw["apiVersion"], raw["kind"] = t.apiVersion(), t.Name
	if was == nil {
		s.made++
		if m["uid"] == nil {
			m["uid"] = fmt.Sprintf("%08x-0000-4000-8000-%012x", s.seed, s.made)
		}
		m["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
		m["generation"] = int64(1)
	} else {
		if same(was.raw, raw) {
			return was
		}
		m["uid"], m["creationTimestamp"] = metaOf(was.raw)["uid"], metaOf(was.raw)["creationTimestamp"]
		m["generation"] = metaOf(was.raw)["generation"]
		if !equal(was.raw["spec"], raw["spec"]) {
			m["generation"] = number(m["generation"]) + 1
		}
	}
	s.version++
	m["resourceVersion"] = strconv.FormatInt(s.version, 10)
	is := newObject(key, s.version, raw)
	t.objects[key] = is
	kind := "MODIFIED"
	if was == nil {
		kind = "ADDED"
	}
	t.note(Change{At: time.Now(), Type: kind, Key: key, Version: s.version, is: is, was: was})
	s.announce()
	return is
}

func (t *table) note(c Change) {
	c.UID, _ = metaOf(c.is.raw)["uid"].(string)
	t.log, t.history = append(t.log, c), append(t.history, c)
}

// erase removes an object. The caller holds the lock.
func (s *Server) erase(t *table, key string) {
	was := t.objects[key]
	if was == nil {
		return
	}
	s.version++
	raw := runtime.DeepCopyJSON(was.raw)
	metaOf(raw)["resourceVersion"] = strconv.FormatInt(s.version, 10)
	delete(t.objects, key)
	t.note(Change{At: time.Now(), Type: "DELETED", Key: key, Version: s.version, is: newObject(key, s.version, raw), was: was})
	s.announce()
}

func newObject(key string, version int64, raw map[string]any) *object {
	text, err := json.Marshal(raw)
	if err != nil {
		panic(fmt.Sprintf("kubesim: an object that is no JSON: %v", err)) // it was read from JSON
	}
	return &object{raw: raw, key: key, version: version, text: text}
}

// metaOf returns the metadata of an object, to be changed in place.
func metaOf(raw map[string]any) map[string]any {
	m, ok := raw["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		raw["metadata"] = m
	}
	return m
}

// same reports whether two versions of an object differ in nothing that a client wrote.
func same(a, b map[string]any) bool {
	short := func(raw map[string]any) map[string]any {
		raw = maps.Clone(raw)
		m := maps.Clone(metaOf(raw))
		for _, key := range []string{"resourceVersion", "managedFields", "generation", "uid", "creationTimestamp"} {
			delete(m, key)
		}
		raw["metadata"] = m
		return raw
	}
	return equal(short(a), short(b))
}

func equal(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err := json.Marshal(a)
	y, other := json.Marshal(b)
	return err == nil && other == nil && string(x) == string(y)
}

func number(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case float64:
		return int64(n)
	}
	return 0
}

// sorted returns the objects of a kind by their keys.
func (t *table) sorted() []*object {
	return slices.SortedFunc(maps.Values(t.objects), func(a, b *object) int { return cmp.Compare(a.key, b.key) })
}

// The rest is the way to the objects for those who are part of the cluster: controllers, kubelets,
// people. It knows no faults.

// Apply creates or replaces the object of a manifest.
func (s *Server) Apply(manifest string) error {
	raw := map[string]any{}
	if err := yaml.Unmarshal([]byte(manifest), &raw); err != nil {
		return err
	}
	return s.Put(raw)
}

// Put creates or replaces an object, which the server keeps.
func (s *Server) Put(raw map[string]any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range s.tables {
		if t.apiVersion() != raw["apiVersion"] || t.Name != raw["kind"] {
			continue
		}
		m := metaOf(raw)
		namespace, _ := m["namespace"].(string)
		name, _ := m["name"].(string)
		s.put(t, keyOf(namespace, name), normal(raw))
		return nil
	}
	return fmt.Errorf("no kind %v of %v", raw["kind"], raw["apiVersion"])
}

// normal has whole numbers be int64, as Kubernetes' own functions expect them.
func normal(raw map[string]any) map[string]any {
	return whole(raw).(map[string]any)
}

func whole(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, is := range v {
			v[key] = whole(is)
		}
	case []any:
		for i, is := range v {
			v[i] = whole(is)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	case int:
		return int64(v)
	}
	return v
}

// Change edits an object, and reports whether it is there.
func (s *Server) Change(kind, key string, edit func(raw map[string]any)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tables[kind]
	is := t.objects[key]
	if is == nil {
		return false
	}
	raw := runtime.DeepCopyJSON(is.raw)
	edit(raw)
	s.settle(t, key, normal(raw))
	return true
}

// Remove removes an object at once, without regard for grace and finalizers.
func (s *Server) Remove(kind, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.erase(s.tables[kind], key)
}

// Get returns an object, only to be read, or nil.
func (s *Server) Get(kind, key string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	if is := s.tables[kind].objects[key]; is != nil {
		return is.raw
	}
	return nil
}

// Keys returns the keys of a kind's objects, sorted.
func (s *Server) Keys(kind string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.tables[kind].objects))
}

// History returns all changes of a kind from the start on, those by a restored snapshot among them.
func (s *Server) History(kind string) []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.tables[kind].history
	return h[:len(h):len(h)]
}
