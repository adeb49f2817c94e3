package pveapi

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// decode reads data that is known to be JSON. The kinds that looks read, which are flat objects,
// are taken apart here: encoding/json takes several times as long for them. What is of another
// kind, or not written plainly, is left to it.
func decode(data []byte, into any) error {
	read := false
	switch into := into.(type) {
	case *fields:
		*into, read = readFields(data)
	case *[]fields:
		*into, read = readList(data, readFields)
	case *map[string]fields:
		*into, read = readMap(data, readFields)
	case *[]resourceRead:
		*into, read = readList(data, readResource)
	}
	if read {
		return nil
	}
	return json.Unmarshal(data, into)
}

func readFields(data json.RawMessage) (fields, bool) {
	return readMap(data, func(value json.RawMessage) (json.RawMessage, bool) { return value, true })
}

func readMap[T any](data json.RawMessage, read func(json.RawMessage) (T, bool)) (map[string]T, bool) {
	all := map[string]T{}
	return all, walk(data, '{', func(key string, value json.RawMessage) (ok bool) {
		all[key], ok = read(value)
		return ok
	})
}

func readList[T any](data json.RawMessage, read func(json.RawMessage) (T, bool)) ([]T, bool) {
	all := make([]T, 0, bytes.Count(data, []byte("},{"))+1)
	return all, walk(data, '[', func(_ string, value json.RawMessage) bool {
		one, ok := read(value)
		all = append(all, one)
		return ok
	})
}

func readResource(data json.RawMessage) (resourceRead, bool) {
	var r resourceRead
	return r, walk(data, '{', func(key string, value json.RawMessage) bool {
		if at := r.field(key); at != nil {
			*at = loose(asText(value))
			return true
		}
		for i := range len(key) {
			if key[i] >= 'A' && key[i] <= 'Z' {
				return false // encoding/json takes it for its lower case
			}
		}
		return true
	})
}

// field is where the value of a key is put, nil if it is not wanted.
func (f *resourceRead) field(key string) *loose {
	switch key {
	case "id":
		return &f.ID
	case "type":
		return &f.Type
	case "node":
		return &f.Node
	case "vmid":
		return &f.VMID
	case "name":
		return &f.Name
	case "status":
		return &f.Status
	case "pool":
		return &f.Pool
	case "storage":
		return &f.Storage
	case "plugintype":
		return &f.PluginType
	case "content":
		return &f.Content
	case "tags":
		return &f.Tags
	case "lock":
		return &f.Lock
	case "hastate":
		return &f.HAState
	case "template":
		return &f.Template
	case "shared":
		return &f.Shared
	case "cpu":
		return &f.CPU
	case "uptime":
		return &f.Uptime
	}
	return f.measure(key)
}

func (f *resourceRead) measure(key string) *loose {
	switch key {
	case "maxcpu":
		return &f.MaxCPU
	case "mem":
		return &f.Mem
	case "maxmem":
		return &f.MaxMem
	case "disk":
		return &f.Disk
	case "maxdisk":
		return &f.MaxDisk
	}
	return nil
}

// walk goes through the members of an object or the elements of a list, by the bracket that opens
// it. It reports false where the data is of another kind, a key is not plain, or one is not taken.
func walk(data json.RawMessage, open byte, each func(key string, value json.RawMessage) bool) bool {
	i := skipSpace(data, 0)
	if i == len(data) || data[i] != open {
		return false
	}
	for i++; ; {
		switch i = skipSpace(data, i); data[i] {
		case '}', ']':
			return true
		case ',':
			i++
			continue
		}
		key := ""
		if open == '{' {
			end, plain := endOf(data, i), false
			if key, plain = unquoted(data[i:end]); !plain {
				return false
			}
			i = skipSpace(data, skipSpace(data, end)+1)
		}
		end := endOf(data, i)
		if !each(key, data[i:end:end]) {
			return false
		}
		i = end
	}
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\t' || data[i] == '\r') {
		i++
	}
	return i
}

// endOf is where a value ends that begins at a place.
func endOf(data []byte, i int) int {
	for depth := 0; ; {
		switch c := data[i]; {
		case c == '"':
			i = endOfText(data, i)
		case c == '{' || c == '[':
			depth++
			i++
		case c == '}' || c == ']':
			depth--
			i++
		case depth > 0:
			i++
		default:
			for i < len(data) && data[i] < utf8.RuneSelf && isScalar[data[i]] {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// endOfText is where a text ends, with its quotes.
func endOfText(data []byte, i int) int {
	for i++; data[i] != '"'; i++ {
		if data[i] == '\\' {
			i++
		}
	}
	return i + 1
}

// isScalar are the bytes of numbers, true, false and null.
var isScalar = func() (is [utf8.RuneSelf]bool) {
	for _, c := range "+-.0123456789Eaeflnrstu" {
		is[c] = true
	}
	return is
}()
