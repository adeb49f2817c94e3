package pvesim

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"
)

// encodeJSON encodes what handlers answer with. Most of it is texts and numbers in maps and
// lists, for which encoding/json takes four times as long.
func encodeJSON(v any) []byte {
	room := encoding.Get().(*[]byte)
	defer encoding.Put(room)
	*room = appendJSON((*room)[:0], v)
	return bytes.Clone(*room)
}

// encoding is room for an answer while it grows.
var encoding = sync.Pool{New: func() any { return new([]byte) }}

func appendJSON(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case string:
		return appendText(b, v)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		return appendFloat(b, v)
	case json.RawMessage:
		return append(b, v...)
	case map[string]any:
		if v == nil {
			return append(b, "null"...)
		}
		b = append(b, '{')
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		for i, key := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, key), ':')
			b = appendJSON(b, v[key])
		}
		return append(b, '}')
	case []any:
		if v == nil {
			return append(b, "null"...)
		}
		b = append(b, '[')
		for i := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendJSON(b, v[i])
		}
		return append(b, ']')
	}
	return append(b, encodeOther(v)...)
}

// appendFloat appends a number. One of common size is written as encoding/json does.
func appendFloat(b []byte, v float64) []byte {
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) || math.IsNaN(v) {
		return append(b, encodeOther(v)...)
	}
	return strconv.AppendFloat(b, v, 'f', -1, 64)
}

// object is an object that is written member by member, in the order of their keys. The entries of
// long lists are: to make and sort a map for each of them would be most of the work.
type object struct{ b []byte }

func (o *object) key(key string) {
	if o.b == nil {
		o.b = append(make([]byte, 0, 384), '{')
	} else {
		o.b = append(o.b, ',')
	}
	o.b = append(appendText(o.b, key), ':')
}

func (o *object) text(key, value string) {
	o.key(key)
	o.b = appendText(o.b, value)
}

// unlessEmpty writes a text that is not empty.
func (o *object) unlessEmpty(key, value string) {
	if value != "" {
		o.text(key, value)
	}
}

func (o *object) whole(key string, value int64) {
	o.key(key)
	o.b = strconv.AppendInt(o.b, value, 10)
}

func (o *object) fraction(key string, value float64) {
	o.key(key)
	o.b = appendFloat(o.b, value)
}

func (o *object) end() json.RawMessage { return append(o.b, '}') }

// appendText appends a text. One of plain letters is written as it is.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return append(b, encodeOther(text)...)
		}
	}
	return append(append(append(b, '"'), text...), '"')
}

// encodeOther encodes as encoding/json does, but for <, > and &, which stay.
func encodeOther(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // handlers answer with maps, lists and numbers
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
