package kubesim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// answer is what a request is answered with.
type answer struct {
	code   int
	body   []byte
	header map[string]string
}

func answered(code int, v any) answer {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("kubesim: an answer that is no JSON: %v", err))
	}
	return answer{code: code, body: text}
}

// failed is an answer that something went wrong.
func failed(code int, reason metav1.StatusReason, format string, args ...any) answer {
	return answered(code, status(code, reason, fmt.Sprintf(format, args...)))
}

func status(code int, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message, Details: &metav1.StatusDetails{},
	}
}

func notFound(q *request) answer {
	return failed(http.StatusNotFound, metav1.StatusReasonNotFound, "%s %q not found", q.table.id(), q.name)
}

func expired(why string) answer {
	return failed(http.StatusGone, metav1.StatusReasonExpired, "%s", why)
}

// shown is an object as the request wants it.
func (q *request) shown(o *object) []byte {
	if q.metadataOnly {
		text, _ := json.Marshal(map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": o.raw["metadata"]})
		return text
	}
	return o.text
}

// filter is which objects a request is about.
type filter struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func (q *request) filter() (filter, error) {
	f := filter{namespace: q.namespace}
	var err error
	if f.labels, err = labels.Parse(q.get("labelSelector")); err != nil {
		return f, err
	}
	f.fields, err = fields.ParseSelector(q.get("fieldSelector"))
	return f, err
}

func (f *filter) matches(o *object) bool {
	if o == nil {
		return false
	}
	m := metaOf(o.raw)
	if f.namespace != "" && m["namespace"] != f.namespace {
		return false
	}
	return f.labels.Matches(labelsOf(m)) && f.fields.Matches(fieldsOf(o.raw))
}

func labelsOf(m map[string]any) labels.Set {
	set := labels.Set{}
	all, _ := m["labels"].(map[string]any)
	for key, v := range all {
		set[key], _ = v.(string)
	}
	return set
}

// fieldsOf are the fields by which objects can be selected.
func fieldsOf(raw map[string]any) fields.Set {
	at := func(v any, path ...string) string {
		for _, key := range path {
			m, _ := v.(map[string]any)
			v = m[key]
		}
		text, _ := v.(string)
		return text
	}
	return fields.Set{
		"metadata.name": at(raw, "metadata", "name"), "metadata.namespace": at(raw, "metadata", "namespace"),
		"status.phase": at(raw, "status", "phase"), "spec.nodeName": at(raw, "spec", "nodeName"),
	}
}

// get answers with one object.
func (s *Server) get(q *request) answer {
	is := q.table.objects[q.key()]
	if is == nil {
		return notFound(q)
	}
	if q.sub == "scale" {
		return answered(http.StatusOK, scaleOf(is))
	}
	return answer{code: http.StatusOK, body: q.shown(is)}
}

// list answers with objects, page by page.
func (s *Server) list(q *request) answer {
	f, err := q.filter()
	if err != nil {
		return failed(http.StatusBadRequest, metav1.StatusReasonBadRequest, "%v", err)
	}
	if wants, _ := strconv.ParseInt(q.get("resourceVersion"), 10, 64); wants > s.version {
		return tooLarge(wants, s.version)
	}
	version, rest := s.version, []*object(nil)
	if from := q.get("continue"); from != "" {
		kept, ok := s.pages[from]
		if !ok {
			return expired("The provided continue parameter is too old")
		}
		delete(s.pages, from)
		rest = kept
		if v, _, cut := strings.Cut(from, "-"); cut {
			version, _ = strconv.ParseInt(v, 10, 64)
		}
	} else {
		rest = slices.DeleteFunc(q.table.sorted(), func(o *object) bool { return !f.matches(o) })
	}
	more := ""
	if limit, _ := strconv.Atoi(q.get("limit")); limit > 0 && len(rest) > limit {
		more = fmt.Sprintf("%d-%d", version, len(s.pages))
		for s.pages[more] != nil {
			more += "x"
		}
		s.pages[more], rest = rest[limit:], rest[:limit]
	}
	return answer{code: http.StatusOK, body: q.listed(rest, version, more)}
}

func (q *request) listed(all []*object, version int64, more string) []byte {
	apiVersion, kind := q.table.apiVersion(), q.table.Name+"List"
	if q.metadataOnly {
		apiVersion, kind = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d","continue":%q},"items":[`, apiVersion, kind, version, more)
	for i, o := range all {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(q.shown(o))
	}
	out.WriteString("]}")
	return out.Bytes()
}

// tooLarge is the answer to who asks for what is not there yet.
func tooLarge(wants, is int64) answer {
	st := status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, fmt.Sprintf("Too large resource version: %d, current: %d", wants, is))
	st.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	st.Details.RetryAfterSeconds = 1
	return answered(int(st.Code), st)
}

// Compact has the server forget what was before, as it does every few minutes: who watches from
// then, or continues a list, is answered that it is gone.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.pages)
	for _, t := range s.tables {
		t.floor = s.version // watches that are open have read the log already
	}
}

// Snapshot is all that the server holds at a time.
type Snapshot struct {
	version int64
	objects map[string]map[string]*object
}

// Snapshot returns what the server holds now.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := Snapshot{s.version, map[string]map[string]*object{}}
	for id, t := range s.tables {
		snap.objects[id] = make(map[string]*object, len(t.objects))
		for key, o := range t.objects {
			snap.objects[id][key] = o
		}
	}
	return snap
}

// Restore has the server hold a snapshot again. Its watches end. With marked set, versions go on
// above all that were there, and who watches from an earlier one is answered that it is gone, as
// etcdutl does it with --bump-revision and --mark-compacted. Without, versions go back.
func (s *Server) Restore(snap Snapshot, marked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version += 1_000_000; !marked {
		s.version = snap.version
	}
	clear(s.pages)
	for id, t := range s.tables {
		t.log = nil
		if t.floor = 0; marked {
			t.floor = s.version
		}
		before := t.objects
		t.objects = map[string]*object{}
		for key, o := range snap.objects[id] {
			t.objects[key] = o
			if was := before[key]; was != o {
				t.restored("ADDED", o, was)
			}
		}
		for key, o := range before {
			if t.objects[key] == nil {
				t.restored("DELETED", o, o)
			}
		}
	}
	for st := range s.streams {
		st.broken = true
	}
	s.announce()
}

func (t *table) restored(kind string, is, was *object) {
	uid, _ := metaOf(is.raw)["uid"].(string)
	t.history = append(t.history, Change{At: time.Now(), Type: kind, Key: is.key, Version: is.version, UID: uid, is: is, was: was})
}
