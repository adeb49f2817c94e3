package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// tree is a part of a manifest that is read key by key. Keys that were neither read nor given up by
// the end are found by leftover, so that none is lost in silence.
type tree struct {
	path  string
	value any // nil if it is not there
	*reading
}

// reading is what has come of a manifest so far.
type reading struct {
	read   map[string]bool // paths of values
	source map[string]string
	lost   []Loss
	notes  []string
	faults []error
	// annotations are what is written into those of the WorkloadAutoscaler.
	annotations map[string]string
	namespace   string
	// auths are the file's objects by which KEDA's triggers are shown to servers.
	auths  authentications
	around *around
}

func (t tree) there() bool { return t.value != nil }

// becomes notes under which key of ours it is written, so that faults of that key are reported
// under this one.
func (t tree) becomes(key string) { t.source[key] = t.path }

// at is the part under a key, which may not be there.
func (t tree) at(key string) tree {
	in, ok := t.value.(map[string]any)
	if t.there() && !ok {
		t.fault("must be a mapping", t.value)
	}
	path := t.path + "." + key
	if t.path == "" {
		path = key
	} else if strings.ContainsAny(key, "./") {
		path = fmt.Sprintf("%s[%q]", t.path, key)
	}
	t.read[t.path] = true
	return tree{path, in[key], t.reading}
}

// keys are those of a mapping, sorted.
func (t tree) keys() []string {
	in, _ := t.value.(map[string]any)
	return slices.Sorted(maps.Keys(in))
}

// items are those of a list.
func (t tree) items() []tree {
	in, ok := t.value.([]any)
	if t.there() && !ok {
		t.fault("must be a list", t.value)
	}
	t.read[t.path] = true
	var all []tree
	for i, v := range in {
		all = append(all, tree{fmt.Sprintf("%s[%d]", t.path, i), v, t.reading})
	}
	return all
}

// text reads a text; a number counts as the text that it is written as. A true or false does not:
// it may be neither what was written nor what was meant, and the API server refuses it.
func (t tree) text() string {
	if _, is := t.value.(bool); is {
		t.read[t.path] = true
		t.fault("must be a text, in quotes where YAML takes it for true or false (on, off, yes, no, y, n)", t.value)
		return ""
	}
	return t.word()
}

// word is text for what may be true or false, too, or is refused as none of what it may be.
func (t tree) word() string {
	if !t.there() {
		return ""
	}
	t.read[t.path] = true
	switch v := t.value.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	t.fault("must be a text or a number", t.value)
	return ""
}

// needed is text for what must be there.
func (t tree) needed() string {
	text := t.text()
	if text == "" && (!t.there() || t.value == "") {
		t.fault("must be there", "nothing")
	}
	return text
}

// whole reads a whole number, in the bounds of its kind.
func (t tree) whole() (int32, bool) {
	if !t.there() {
		return 0, false
	}
	n, err := strconv.ParseInt(t.word(), 10, 32)
	if err != nil {
		t.fault("must be a whole number", t.value)
	}
	return int32(n), err == nil
}

// lose gives up what is here, and all below it.
func (t tree) lose(format string, args ...any) {
	if t.there() {
		t.lost = append(t.lost, Loss{Key: t.path, Why: fmt.Sprintf(format, args...)})
	}
}

// skip passes over what is here: it says nothing that a WorkloadAutoscaler could.
func (t tree) skip() { t.read[t.path+skipped] = true }

// skipped marks, behind a path, that nothing below it is to be read.
const skipped = " *"

func (t tree) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

func (t tree) fault(rule string, was any) {
	t.faults = append(t.faults, fmt.Errorf("%s: %s, was %v", t.path, rule, shown(was)))
}

func shown(v any) any {
	switch v.(type) {
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	}
	return v
}

func (r *reading) err() error { return errors.Join(r.faults...) }

// leftover gives up everything that has not been read.
func (t tree) leftover() {
	if t.value == nil || t.read[t.path+skipped] || slices.ContainsFunc(t.lost, func(l Loss) bool { return l.Key == t.path }) {
		return
	}
	switch v := t.value.(type) {
	case map[string]any:
		if len(v) > 0 && t.anyRead() {
			for _, key := range t.keys() {
				t.at(key).leftover()
			}
			return
		}
	case []any:
		if len(v) > 0 && t.anyRead() {
			for _, item := range t.items() {
				item.leftover()
			}
			return
		}
	}
	if !t.read[t.path] {
		t.lose("nothing here is known to mean the same")
	}
}

// anyRead reports whether something of a mapping or list was looked at.
func (t tree) anyRead() bool {
	if t.read[t.path] {
		return true
	}
	for path := range t.read {
		if strings.HasPrefix(path, t.path+".") || strings.HasPrefix(path, t.path+"[") {
			return true
		}
	}
	return false
}
