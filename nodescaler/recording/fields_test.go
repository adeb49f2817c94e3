package recording_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/nodescaler/recording"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// fill gives every field a value that is not its zero.
func fill(t *testing.T, v reflect.Value, path string) {
	if text, ok := v.Addr().Interface().(interface{ UnmarshalText([]byte) error }); ok && v.Type() != reflect.TypeFor[time.Time]() {
		for _, s := range []string{"5 8 * * *", "Europe/Berlin", "08:30", "Monday", "7", "7Ki", "7m0s", "50%"} {
			if text.UnmarshalText([]byte(s)) == nil && !v.IsZero() {
				return
			}
		}
		t.Fatalf("%s: no sample of a %s is known", path, v.Type())
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(.5)
	case reflect.String:
		v.SetString("x")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0), path+"[0]")
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path+" key")
		fill(t, value, path+"[x]")
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), path)
		}
	case reflect.Struct:
		fillStruct(t, v, path)
	case reflect.Interface:
		fillInterface(t, v, path)
	default:
		t.Fatalf("%s: no sample of a %s is known", path, v.Type())
	}
}

func fillStruct(t *testing.T, v reflect.Value, path string) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(time.Date(2026, 3, 2, 8, 0, 0, 1, time.UTC)))
		return
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case f.Tag.Get("json") == "-" || f.Type.Kind() == reflect.Func:
		case !f.IsExported() && !f.Anonymous:
			t.Fatalf("%s.%s is not exported, and no part of a recording", path, f.Name)
		default:
			fill(t, v.Field(i), path+"."+f.Name)
		}
	}
}

func fillInterface(t *testing.T, v reflect.Value, path string) {
	switch v.Type() {
	case reflect.TypeFor[error]():
		v.Set(reflect.ValueOf(errors.New("x")))
	case reflect.TypeFor[loop.PolicySpec]():
		v.Set(reflect.ValueOf(podpolicy.Spec{Policy: "hpa"}))
	default:
		t.Fatalf("%s: no sample of a %s is known", path, v.Type())
	}
}

// All that a step is decided by is recorded: no field of it is forgotten, also of those that come
// later.
func TestEveryFieldIsRecorded(t *testing.T) {
	var o loop.Observation
	var in loop.Intent
	fill(t, reflect.ValueOf(&o).Elem(), "Observation")
	fill(t, reflect.ValueOf(&in).Elem(), "Intent")
	daemons := nodescaler.Daemons{Sets: []*nodescaler.Pod{{Selector: map[string]string{"a": "b"}}}}
	o.Cluster.Daemons = func(*nodescaler.Pool) nodescaler.Daemons { return daemons }
	into := newTape()
	into.Forget(recording.Nothing, nil)
	must.Do(t, into.Append(&o, &in, &loop.Step{ID: "d-1", Time: o.Time}))
	read := 0
	err := into.read(func(m *recording.Moment) error {
		read++
		got := m.Observation.Cluster.Daemons(&in.Pools[0])
		o.Cluster.Daemons, m.Observation.Cluster.Daemons = nil, nil
		same(t, "Daemons", reflect.ValueOf(daemons), reflect.ValueOf(got))
		same(t, "Observation", reflect.ValueOf(o), reflect.ValueOf(m.Observation))
		same(t, "Intent", reflect.ValueOf(in), reflect.ValueOf(m.Intent))
		return nil
	})
	if err != nil || read != 1 {
		t.Fatalf("%d steps are read, %v", read, err)
	}
}

// same compares field by field, so that the one that differs is named.
func same(t *testing.T, path string, want, got reflect.Value) {
	if want.Kind() == reflect.Struct && want.Type() != reflect.TypeFor[time.Time]() && want.NumField() > 0 && want.Type().Field(0).IsExported() {
		for i := range want.NumField() {
			if want.Type().Field(i).IsExported() {
				same(t, path+"."+want.Type().Field(i).Name, want.Field(i), got.Field(i))
			}
		}
		return
	}
	if want.Kind() == reflect.Slice && want.Len() == 1 && got.Len() == 1 {
		same(t, path+"[0]", want.Index(0), got.Index(0))
		return
	}
	w, g := want.Interface(), got.Interface()
	if reflect.TypeOf(w) == reflect.TypeFor[error]() || fmt.Sprintf("%T", w) == "*errors.errorString" {
		w, g = fmt.Sprint(w), fmt.Sprint(g)
	}
	if !reflect.DeepEqual(w, g) {
		t.Errorf("%s: recorded %+v, read %+v", path, w, g)
	}
}
