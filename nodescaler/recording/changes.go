package recording

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// changes are what is new or different in a list, and the names of what is gone from it.
type changes[T any] struct {
	Set  columns[T] `json:"set,omitempty"`
	Gone []string   `json:"gone,omitempty"`
	// Anew says that Set is the whole list, in its order.
	Anew bool `json:"anew,omitempty"`
}

// named is a list whose items have names.
type named[T any] struct {
	name func(*T) string
	same func(a, b *T) bool
}

// diff is what leads from one list to another. Lists are sorted by name; one that is not is kept
// anew.
func (n named[T]) diff(was, now []T) (c changes[T]) {
	if !n.sorted(was) || !n.sorted(now) {
		return changes[T]{Set: now, Anew: true}
	}
	for i, j := 0, 0; i < len(was) || j < len(now); {
		switch order := n.compare(was, i, now, j); {
		case order < 0:
			c.Gone = append(c.Gone, n.name(&was[i]))
			i++
		case order > 0:
			c.Set = append(c.Set, now[j])
			j++
		default:
			if !n.same(&was[i], &now[j]) {
				c.Set = append(c.Set, now[j])
			}
			i, j = i+1, j+1
		}
	}
	return c
}

// compare orders the next items of two lists by name. What is there comes before an end.
func (n named[T]) compare(a []T, i int, b []T, j int) int {
	switch {
	case i == len(a):
		return 1
	case j == len(b):
		return -1
	}
	return strings.Compare(n.name(&a[i]), n.name(&b[j]))
}

// sorted reports whether each name comes after the one before, so that none is there twice.
func (n named[T]) sorted(all []T) bool {
	for i := 1; i < len(all); i++ {
		if n.name(&all[i-1]) >= n.name(&all[i]) {
			return false
		}
	}
	return true
}

// apply is the list that the changes lead to. The list they are applied to stays as it is.
func (n named[T]) apply(was []T, c *changes[T]) []T {
	if c.Anew {
		return c.Set
	}
	if len(c.Set) == 0 && len(c.Gone) == 0 {
		return was
	}
	var now []T
	gone := c.Gone
	for i, j := 0, 0; i < len(was) || j < len(c.Set); {
		switch order := n.compare(was, i, c.Set, j); {
		case order < 0:
			if len(gone) > 0 && gone[0] == n.name(&was[i]) {
				gone = gone[1:]
			} else {
				now = append(now, was[i])
			}
			i++
		case order > 0:
			now = append(now, c.Set[j])
			j++
		default:
			now = append(now, c.Set[j])
			i, j = i+1, j+1
		}
	}
	return now
}

// entries are what is new or different in a map, and the keys that are gone from it.
type entries[T any] struct {
	Set  map[string]T `json:"set,omitempty"`
	Gone []string     `json:"gone,omitempty"`
}

// diffEntries is what leads from one map to another.
func diffEntries[T any](was, now map[string]T) (e entries[T]) {
	for key, value := range now {
		if old, there := was[key]; !there || !reflect.DeepEqual(old, value) {
			if e.Set == nil {
				e.Set = map[string]T{}
			}
			e.Set[key] = value
		}
	}
	for key := range was {
		if _, there := now[key]; !there {
			e.Gone = append(e.Gone, key)
		}
	}
	slices.Sort(e.Gone)
	return e
}

// apply is the map that the changes lead to. The map they are applied to stays as it is.
func (e *entries[T]) apply(was map[string]T) map[string]T {
	if len(e.Set) == 0 && len(e.Gone) == 0 {
		return was
	}
	now := maps.Clone(was)
	if now == nil {
		now = map[string]T{}
	}
	for _, key := range e.Gone {
		delete(now, key)
	}
	maps.Copy(now, e.Set)
	return now
}

// whole is a value that is written whole where it changed: nil is as before. What is empty is not
// mistaken for that.
type whole[T any] struct {
	Is T `json:"is"`
}

func diffWhole[T any](was, now T) *whole[T] {
	if reflect.DeepEqual(was, now) {
		return nil
	}
	return &whole[T]{now}
}

func (w *whole[T]) apply(was T) T {
	if w == nil {
		return was
	}
	return w.Is
}
