package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
)

func seconds(n int) nodescaler.Duration {
	return nodescaler.Duration(n) * nodescaler.Duration(time.Second)
}
func minutes(n int) nodescaler.Duration { return seconds(60 * n) }

// decode reads a block of settings over the defaults that are in it: a key that is not written
// keeps its default, one that is written counts even if it is zero. Keys are read one by one,
// so that every fault is reported, with its key.
func decode(block string, data []byte, settings any) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return fmt.Errorf("%s: must be a block of settings, was %s", block, data)
	}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		one, err := json.Marshal(map[string]json.RawMessage{key: keys[key]})
		if err != nil {
			return fmt.Errorf("%s.%s: %w", block, key, err)
		}
		d := json.NewDecoder(bytes.NewReader(one))
		d.DisallowUnknownFields()
		if err := d.Decode(settings); err != nil {
			faults = append(faults, fmt.Errorf("%s.%s: %w", block, key, plain(err, keys[key])))
		}
	}
	return errors.Join(faults...)
}

// plain puts the decoder's errors in the words that the other faults have.
func plain(err error, was json.RawMessage) error {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("must be of type %s, was %s", t.Type.Kind(), was)
	}
	if strings.Contains(err.Error(), "unknown field") {
		return errors.New("no such setting")
	}
	return err
}

// faults gathers everything that is wrong with a block of settings.
type faults struct {
	block string
	found []error
}

// must notes a fault unless ok: the key, the rule that it breaks and its value.
func (f *faults) must(ok bool, key, rule string, was any) {
	if !ok {
		f.found = append(f.found, fmt.Errorf("%s.%s: must be %s, was %v", f.block, key, rule, was))
	}
}

// positive and notNegative are the rules for most durations.
func (f *faults) positive(key string, d nodescaler.Duration) {
	f.must(d > 0, key, "longer than 0s", d)
}

func (f *faults) notNegative(key string, d nodescaler.Duration) {
	f.must(d >= 0, key, "0s or longer", d)
}

func (f *faults) err() error { return errors.Join(f.found...) }
