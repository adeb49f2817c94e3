package intentmap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pvecode"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// server is the ConfigMaps' part of a Kubernetes API: what is written rests on the version it
// names, or is refused.
type server struct {
	mu      sync.Mutex
	there   *corev1.ConfigMap
	version int
	// before is called with every request, and the request waits for it. It says whether the answer
	// is lost.
	before func(*http.Request) (lost bool)
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lost := s.before != nil && s.before(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	code, answer := s.do(r)
	if lost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func refused(code int, reason metav1.StatusReason) (int, any) {
	return code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: reason, Code: int32(code), Message: string(reason),
	}
}

func (s *server) do(r *http.Request) (int, any) {
	switch {
	case r.Method == http.MethodPost && s.there != nil:
		return refused(http.StatusConflict, metav1.StatusReasonAlreadyExists)
	case r.Method == http.MethodPost:
		var c corev1.ConfigMap
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			return refused(http.StatusBadRequest, metav1.StatusReasonBadRequest)
		}
		c.UID = types.UID(fmt.Sprint("uid-", s.version))
		s.there = &c
		return http.StatusCreated, s.written()
	case s.there == nil:
		return refused(http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodPatch:
		return s.patch(r)
	}
	return http.StatusOK, s.there
}

func (s *server) patch(r *http.Request) (int, any) {
	var change struct {
		Metadata struct {
			ResourceVersion string
			Annotations     map[string]string
		}
		Data map[string]*string
	}
	if err := json.NewDecoder(r.Body).Decode(&change); err != nil || r.Header.Get("Content-Type") != string(types.MergePatchType) {
		return refused(http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	if v := change.Metadata.ResourceVersion; v != "" && v != s.there.ResourceVersion {
		return refused(http.StatusConflict, metav1.StatusReasonConflict)
	}
	c := s.there.DeepCopy()
	for key, text := range change.Metadata.Annotations {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, key, text)
	}
	if c.Data == nil {
		c.Data = map[string]string{}
	}
	for key, text := range change.Data {
		if text == nil {
			delete(c.Data, key)
			continue
		}
		c.Data[key] = *text
	}
	s.there = c
	return http.StatusOK, s.written()
}

func (s *server) written() *corev1.ConfigMap {
	s.version++
	s.there.ResourceVersion = fmt.Sprint(s.version)
	return s.there
}

// label changes something that is not ours, as a person does.
func (s *server) label() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.there.Labels = map[string]string{"at": fmt.Sprint(s.version)}
	s.written()
}

// asJSON is what the server reads.
var asJSON = rest.ContentConfig{ContentType: "application/json", AcceptContentTypes: "application/json"}

func (s *server) serve(t must.Test) (typedv1.ConfigMapInterface, func()) {
	door := httptest.NewServer(s)
	client := must.Get(typedv1.NewForConfig(&rest.Config{Host: door.URL, QPS: -1, ContentConfig: asJSON}))(t)
	return client.ConfigMaps("plimsoll"), door.Close
}

func intent(order string, note int) intents.Intent {
	i := intents.Intent{
		Order: order, Pool: "web", Name: "web-" + order, Shape: pricing.Shape{Name: "small", CPU: 2000, Memory: 4 * pricing.GiB}, Host: "pve1", VMID: 1000 + note,
		Created: time.Date(2026, 1, 1, 0, 0, note, 0, time.UTC), Step: intents.StepCloned,
	}
	i.Spent, i.Failed = []int{note}, &nodescaler.Reason{Code: pvecode.JoinTimeout, Text: "it is no node"}
	return i
}

func claim(t *testing.T, maps typedv1.ConfigMapInterface, holder string) *Map {
	t.Helper()
	return must.Get(Claim(t.Context(), Config{Maps: maps, Name: "plimsoll-intents", Holder: holder}))(t)
}

func loaded(t *testing.T, m *Map) []intents.Intent {
	t.Helper()
	return must.Get(m.Load())(t)
}

func TestIntentsOutliveTheirWriter(t *testing.T) {
	maps, end := (&server{}).serve(t)
	defer end()
	first := claim(t, maps, "a")
	for i, order := range []string{"one-0", "two-0", "three-0"} {
		if err := first.Put(intent(order, i)); err != nil {
			t.Fatal(err)
		}
	}
	changed := intent("two-0", 7)
	if err := errors.Join(first.Put(changed), first.Remove("one-0"), first.Remove("never-0")); err != nil {
		t.Fatal(err)
	}
	want := []intents.Intent{intent("three-0", 2), changed}
	if d := cmp.Diff(want, loaded(t, claim(t, maps, "b"))); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	changed.Spent[0] = 99
	if d := cmp.Diff(want[0], loaded(t, first)[0]); d != "" || loaded(t, first)[1].Spent[0] != 7 {
		t.Errorf("what is remembered changes with what was put\n%s", d)
	}
}

func TestWriterThatWasFollowedKeepsNothingMore(t *testing.T) {
	maps, end := (&server{}).serve(t)
	defer end()
	var fenced []error
	first, err := Claim(t.Context(), Config{Maps: maps, Name: "x", Holder: "a", Fenced: func(err error) { fenced = append(fenced, err) }})
	if err != nil {
		t.Fatal(err)
	}
	second := must.Get(Claim(t.Context(), Config{Maps: maps, Name: "x", Holder: "b"}))(t)
	for range 2 {
		if err := first.Put(intent("one-0", 1)); !errors.Is(err, ErrFenced) || !strings.Contains(err.Error(), "b, with epoch 2 after our 1") {
			t.Errorf("the first one's write: %v", err)
		}
	}
	if len(fenced) != 1 {
		t.Errorf("fenced %v, want it once", fenced)
	}
	if err := second.Put(intent("two-0", 2)); err != nil {
		t.Error(err)
	}
}

func TestConfigMapThatWasDeletedIsNotMadeAgainByItsWriter(t *testing.T) {
	s := &server{}
	maps, end := s.serve(t)
	defer end()
	first := claim(t, maps, "a")
	s.there = nil
	if err := first.Put(intent("one-0", 1)); !errors.Is(err, ErrFenced) || s.there != nil {
		t.Errorf("a write to nothing: %v", err)
	}
	other := claim(t, maps, "a")
	s.there = nil
	second := claim(t, maps, "b") // of the same epoch as the other, in another ConfigMap
	if err := other.Put(intent("one-0", 1)); !errors.Is(err, ErrFenced) {
		t.Errorf("a write to another ConfigMap of the name: %v", err)
	}
	if err := second.Put(intent("two-0", 2)); err != nil {
		t.Error(err)
	}
}

func TestChangesThatAreNotOursDoNotStopTheWriter(t *testing.T) {
	s := &server{}
	maps, end := s.serve(t)
	defer end()
	m := claim(t, maps, "a")
	s.label()
	if err := m.Put(intent("one-0", 1)); err != nil {
		t.Fatal(err)
	}
	if got := len(loaded(t, claim(t, maps, "b"))); got != 1 {
		t.Errorf("%d intents", got)
	}
}

func TestFullConfigMapIsRefusedBeforeTheServerDoes(t *testing.T) {
	maps, end := (&server{}).serve(t)
	defer end()
	m := claim(t, maps, "a")
	i := intent("large-0", 1)
	i.Why = strings.Repeat("x", limit/2)
	if err := m.Put(i); err != nil {
		t.Fatal(err)
	}
	if err := m.Put(i); err != nil {
		t.Errorf("in its own place: %v", err)
	}
	i.Order = "large-1"
	if err := m.Put(i); err == nil || !strings.Contains(err.Error(), "must hold at most") {
		t.Errorf("beside it: %v", err)
	}
	if err := errors.Join(m.Remove("large-0"), m.Put(i)); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// fleetIntent is an intent as fleets write it once the machine is a node, with a reason as long as
// they keep it.
func fleetIntent(n int) intents.Intent {
	at := time.Date(2026, 1, 1, 0, 0, 0, 123456789, time.UTC)
	order := fmt.Sprintf("mtim7pc0-%04d", n)
	i := intents.Intent{
		Order: order, Pool: "workers", Name: "workers-" + order, Shape: pricing.Shape{Name: "medium", CPU: 4000, Memory: 8 * pricing.GiB, Disk: 40 * pricing.GiB},
		Host: "pve1", VMID: 1000 + n, Created: at, Why: strings.Repeat("x", 200), ProviderID: fmt.Sprint("proxmox://home/", 1000+n),
		Step: intents.StepTidied, Since: at, Joined: at,
		Last: "UPID:pve1:0003A1B2:0A1B2C3D:69B1C2D3:imgdel:1000@local:plimsoll@pve!fleet:",
	}
	i.VMIDs, i.PVEPool, i.Asked, i.MAC = placement.VMIDs{First: 1000, Last: 2999}, "plimsoll", at, "BC:24:11:00:11:22"
	i.Settings, i.Original, i.Recipe = "0123456789ab", "9000@0123456789012345678901234567890123456789", "0123456789ab"
	return i
}

// ordered is the intent as it is when the order is taken.
func ordered(i intents.Intent) intents.Intent {
	was := intents.Intent{
		Order: i.Order, Pool: i.Pool, Name: i.Name, Shape: i.Shape, Host: i.Host, VMID: i.VMID, Created: i.Created, Why: i.Why,
		ProviderID: i.ProviderID, Step: intents.StepOrdered, Since: i.Since,
	}
	was.Settings, was.Recipe = i.Settings, i.Recipe
	return was
}

// destroyed is the intent while its machine is destroyed, when it says most.
func destroyed(i intents.Intent) intents.Intent {
	i.Returned, i.Exit = i.Created, intents.ExitDestroy
	i.Task = &intents.Task{
		UPID: "UPID:pve1:0003A1B2:0A1B2C3D:69B1C2D3:qmdestroy:1000:plimsoll@pve!fleet:", Kind: intents.TaskDestroy, Host: "pve1", At: i.Created,
	}
	return i
}

// Orders stop before the ConfigMap is full, whether they come one after the other or all at once:
// those that were taken can all be made, and all be reclaimed at the same time.
func TestFullConfigMapGivesMachinesBack(t *testing.T) {
	for name, atOnce := range map[string]bool{"one after the other": false, "all at once": true} {
		t.Run(name, func(t *testing.T) {
			m := &Map{kept: map[string]intents.Intent{}, sizes: map[string]int{}}
			put := func(i intents.Intent) error {
				data, err := json.Marshal(i)
				if err == nil {
					err = m.full(&i, len(data))
				}
				if err == nil {
					m.note(i.Order, &i, len(data))
				}
				return err
			}
			must := func(i intents.Intent, doing string) {
				if err := put(i); err != nil {
					t.Fatalf("%s %s: %v", doing, i.Order, err)
				}
			}
			n := 0
			for ; put(ordered(fleetIntent(n))) == nil; n++ {
				if !atOnce {
					must(fleetIntent(n), "making")
				}
			}
			if n < 850 {
				t.Errorf("it holds %d machines, want 850 at least", n)
			}
			for k := range n {
				must(fleetIntent(k), "making")
			}
			for k := range n {
				must(destroyed(fleetIntent(k)), "giving back")
			}
			found := fleetIntent(n)
			found.Adopted = true
			must(found, "writing down what was found as")
			for k := range n {
				m.note(fleetIntent(k).Order, nil, 0)
			}
			must(ordered(fleetIntent(n+1)), "with room again, ordering")
		})
	}
}

// recovery is how to go on without a key.
const recovery = `; keep a copy (kubectl -n plimsoll get configmap x -o yaml), then take the key out: ` +
	`kubectl -n plimsoll patch configmap x --type=json -p '[{"op":"remove","path":"/data/one-0"}]'; ` + intents.Lost

func TestWhatIsNoIntentIsNamed(t *testing.T) {
	for text, want := range map[string]string{
		"{":               "ConfigMap plimsoll/x: data.one-0: must be an intent: unexpected end of JSON input" + recovery,
		`{"order":"two"}`: `ConfigMap plimsoll/x: data.one-0: must be the intent of that order, was of "two"` + recovery,
	} {
		s := &server{there: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "plimsoll"}, Data: map[string]string{"one-0": text}}}
		maps, end := s.serve(t)
		_, err := Claim(t.Context(), Config{Maps: maps, Name: "x", Holder: "a"})
		if err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
		end()
	}
}

// turns lets requests through one at a time: each waits until all writers wait or have ended, and
// then the draw says whose is next.
type turns struct {
	mu      sync.Mutex
	waiting []turn
	writers int
	changed chan struct{}
}

type turn struct {
	who    string
	answer chan bool
}

func (q *turns) wait(r *http.Request) bool {
	mine := turn{r.UserAgent(), make(chan bool)}
	q.mu.Lock()
	q.waiting = append(q.waiting, mine)
	q.mu.Unlock()
	q.changed <- struct{}{}
	return <-mine.answer
}

func (q *turns) end() {
	q.mu.Lock()
	q.writers--
	q.mu.Unlock()
	q.changed <- struct{}{}
}

// run gives the turns until all writers have ended, by numbers that were drawn.
func (q *turns) run(drawn []int) {
	for n := 0; ; {
		q.mu.Lock()
		if q.writers == 0 {
			q.mu.Unlock()
			return
		}
		if len(q.waiting) < q.writers {
			q.mu.Unlock()
			<-q.changed
			continue
		}
		slices.SortFunc(q.waiting, func(a, b turn) int { return strings.Compare(a.who, b.who) })
		choice := 0
		if n < len(drawn) {
			choice = drawn[n]
			n++
		}
		i := choice % len(q.waiting)
		next := q.waiting[i]
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.mu.Unlock()
		next.answer <- choice >= 54
	}
}

// history is what writers were answered, in the order of the answers.
type history struct {
	mu  sync.Mutex
	log []answered
}

type answered struct {
	epoch int64
	order string
	note  int // 0 for removed
	sure  bool
}

func (h *history) add(e answered) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.log = append(h.log, e)
}

// For any order of several writers' requests, and any lost answers: what a writer was answered is
// kept is there, and no writer is answered so after another has claimed.
func TestNoIntentIsLostAndOneWriterProceeds(t *testing.T) {
	var s *server
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeHTTP(w, r) }))
	defer door.Close()
	rapid.Check(t, func(t *rapid.T) {
		q := &turns{writers: 3, changed: make(chan struct{}, 100)}
		s = &server{before: q.wait}
		drawn := rapid.SliceOfN(rapid.IntRange(0, 59), 0, 100).Draw(t, "whose turn it is, and whose answer is lost")
		var h history
		for w := range q.writers {
			writes := rapid.SliceOfN(rapid.IntRange(-3, 3), 1, 6).Draw(t, "writes")
			client, err := typedv1.NewForConfig(&rest.Config{Host: door.URL, QPS: -1, ContentConfig: asJSON, UserAgent: fmt.Sprint(w)})
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				defer q.end()
				write(context.Background(), &h, client.ConfigMaps("plimsoll"), w, writes)
			}()
		}
		q.run(drawn)
		s.before = nil
		client := must.Get(typedv1.NewForConfig(&rest.Config{Host: door.URL, QPS: -1, ContentConfig: asJSON}))(t)
		last := must.Get(Claim(context.Background(), Config{Maps: client.ConfigMaps("plimsoll"), Name: "x", Holder: "last"}))(t)
		h.check(t, last)
	})
}

// write claims and writes: a number puts the intent of that name, a negative one removes it.
func write(ctx context.Context, h *history, maps typedv1.ConfigMapInterface, w int, writes []int) {
	m, err := Claim(ctx, Config{Maps: maps, Name: "x", Holder: fmt.Sprint(w)})
	if err != nil {
		return
	}
	for n, o := range writes {
		e := answered{epoch: m.epoch, order: fmt.Sprintf("o-%d", max(o, -o)), note: 1 + 100*w + n}
		if o < 0 {
			e.note = 0
			err = m.Remove(e.order)
		} else {
			err = m.Put(intent(e.order, e.note))
		}
		if errors.Is(err, ErrFenced) {
			return
		}
		e.sure = err == nil
		h.add(e)
	}
}

// check compares what is there with the answers: by order, the sure writes of the highest epoch
// that has any, the last of them, or a later one of which no one knows.
func (h *history) check(t *rapid.T, last *Map) {
	slices.SortStableFunc(h.log, func(a, b answered) int { return int(a.epoch - b.epoch) })
	might := map[string][]int{} // what an order's intent may say now; 0 means no intent
	for _, o := range []string{"o-0", "o-1", "o-2", "o-3"} {
		might[o] = []int{0}
	}
	for _, e := range h.log {
		if e.sure {
			might[e.order] = nil
		}
		might[e.order] = append(might[e.order], e.note)
	}
	for order, notes := range might {
		got := 0
		if i, there := last.kept[order]; there {
			got = i.VMID - 1000
		}
		if !slices.Contains(notes, got) {
			t.Fatalf("%s is %d, was answered to be of %v\n%+v", order, got, notes, h.log)
		}
	}
}
