package recording

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// columns is a list that is written by field, not by item: values of one field are alike, and so
// take a third of the room once they are compressed.
type columns[T any] []T

// table is a list as it is written. What is zero in all items is in neither map.
type table[V any] struct {
	N    int          `json:"n"`
	All  map[string]V `json:"all,omitempty"`  // what is the same in all
	Each map[string]V `json:"each,omitempty"` // lists with a value for each item
}

// mostItems is how many items a list may have, so that a broken file does not take all memory.
const mostItems = 1 << 24

// MarshalJSON writes the list.
func (c columns[T]) MarshalJSON() ([]byte, error) {
	t, items := table[any]{N: len(c), All: map[string]any{}, Each: map[string]any{}}, reflect.ValueOf(c)
	if len(c) == 0 {
		return json.Marshal(t)
	}
	for name, l := range leaves(reflect.TypeFor[T]()) {
		first, alike := items.Index(0).FieldByIndex(l.Index), true
		column := reflect.MakeSlice(reflect.SliceOf(l.Type), len(c), len(c))
		for i := range len(c) {
			v := items.Index(i).FieldByIndex(l.Index)
			alike = alike && equal(first, v)
			column.Index(i).Set(v)
		}
		switch {
		case !alike:
			t.Each[name] = column.Interface()
		case !first.IsZero():
			t.All[name] = first.Interface()
		}
	}
	return json.Marshal(t)
}

func equal(a, b reflect.Value) bool {
	if a.Comparable() && b.Comparable() && a.Kind() != reflect.Pointer {
		return a.Equal(b)
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}

// UnmarshalJSON reads a list. Items share what is the same in all.
func (c *columns[T]) UnmarshalJSON(data []byte) error {
	var t table[json.RawMessage]
	if err := json.Unmarshal(data, &t); err != nil {
		return err
	}
	if t.N < 0 || t.N > mostItems {
		return fmt.Errorf("n: must be from 0 to %d, was %d", mostItems, t.N)
	}
	*c = make(columns[T], t.N)
	items, fields := reflect.ValueOf(*c), leaves(reflect.TypeFor[T]())
	for _, name := range slices.Sorted(maps.Keys(t.All)) {
		if fields[name].Type == nil {
			continue // of another build
		}
		value := reflect.New(fields[name].Type)
		if err := json.Unmarshal(t.All[name], value.Interface()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i := range t.N {
			items.Index(i).FieldByIndex(fields[name].Index).Set(value.Elem())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.Each)) {
		if fields[name].Type == nil {
			continue
		}
		column := reflect.New(reflect.SliceOf(fields[name].Type))
		if err := json.Unmarshal(t.Each[name], column.Interface()); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if n := column.Elem().Len(); n != t.N {
			return fmt.Errorf("%s: must have %d values, has %d", name, t.N, n)
		}
		for i := range t.N {
			items.Index(i).FieldByIndex(fields[name].Index).Set(column.Elem().Index(i))
		}
	}
	return nil
}

// leaf is a field that is a column: of the item, or of a struct in it.
type leaf struct {
	Index []int
	Type  reflect.Type
}

var (
	written = reflect.TypeFor[json.Marshaler]()
	texts   = reflect.TypeFor[encoding.TextMarshaler]()
)

// leaves are the fields of a struct by their paths. What is written in a way of its own is not
// taken apart.
func leaves(of reflect.Type) map[string]leaf {
	all := map[string]leaf{}
	for i := range of.NumField() {
		f := of.Field(i)
		switch {
		case !f.IsExported() || f.Tag.Get("json") == "-":
		case f.Type.Kind() == reflect.Struct && !f.Type.Implements(written) && !f.Type.Implements(texts):
			for name, l := range leaves(f.Type) {
				all[f.Name+"."+name] = leaf{append([]int{i}, l.Index...), l.Type}
			}
		default:
			all[f.Name] = leaf{[]int{i}, f.Type}
		}
	}
	return all
}

// keyed is a map that is written as its keys and a list.
type keyed[T any] map[string]T

type keysAndValues[T any] struct {
	Keys   []string   `json:"keys"`
	Values columns[T] `json:"values"`
}

// MarshalJSON writes the map.
func (k keyed[T]) MarshalJSON() ([]byte, error) {
	w := keysAndValues[T]{Keys: slices.Sorted(maps.Keys(k))}
	for _, key := range w.Keys {
		w.Values = append(w.Values, k[key])
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads a map.
func (k *keyed[T]) UnmarshalJSON(data []byte) error {
	var w keysAndValues[T]
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if len(w.Keys) != len(w.Values) {
		return fmt.Errorf("must have as many keys as values, has %d and %d", len(w.Keys), len(w.Values))
	}
	*k = make(keyed[T], len(w.Keys))
	for i, key := range w.Keys {
		(*k)[key] = w.Values[i]
	}
	return nil
}
