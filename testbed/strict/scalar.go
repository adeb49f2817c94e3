package strict

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// scalar decodes a single value, or returns the rule that it breaks.
func scalar(n *yaml.Node, v reflect.Value) (rule string) {
	if v.Type() == durationType {
		return duration(n, v)
	}
	tag := n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		return text(n, tag, v)
	case reflect.Bool:
		if tag != "!!bool" {
			return "must be true or false"
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
		return ""
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return whole(n, tag, v)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return count(n, tag, v)
	case reflect.Float32, reflect.Float64:
		return float(n, tag, v)
	default:
		panic("strict: cannot decode into " + v.Type().String())
	}
}

func text(n *yaml.Node, tag string, v reflect.Value) string {
	switch {
	case n.Kind != yaml.ScalarNode:
		return "must be a string"
	case tag != "!!str":
		return "must be a string, in quotes"
	}
	v.SetString(n.Value)
	return ""
}

func duration(n *yaml.Node, v reflect.Value) string {
	d, err := time.ParseDuration(n.Value)
	switch {
	case n.Kind == yaml.ScalarNode && err != nil && strings.ContainsAny(n.Value, "dw"):
		return "must be a duration in ms, s, m or h, such as 300ms, 30s or 1h30m"
	case n.Kind != yaml.ScalarNode || err != nil:
		return "must be a duration with its unit, such as 300ms, 30s or 1h30m"
	}
	v.SetInt(int64(d))
	return ""
}

func whole(n *yaml.Node, tag string, v reflect.Value) string {
	i, err := strconv.ParseInt(n.Value, 10, v.Type().Bits())
	switch {
	case tag != "!!int" || errors.Is(err, strconv.ErrSyntax):
		return "must be a whole number"
	case err != nil:
		limit := uint64(1) << (v.Type().Bits() - 1)
		return fmt.Sprintf("must be from -%d to %d", limit, limit-1)
	}
	v.SetInt(i)
	return ""
}

func count(n *yaml.Node, tag string, v reflect.Value) string {
	i, err := strconv.ParseUint(n.Value, 10, v.Type().Bits())
	switch {
	case tag != "!!int" || errors.Is(err, strconv.ErrSyntax) && !strings.HasPrefix(n.Value, "-"):
		return "must be a whole number"
	case err != nil:
		return fmt.Sprintf("must be from 0 to %d", uint64(math.MaxUint64)>>(64-v.Type().Bits()))
	}
	v.SetUint(i)
	return ""
}

func float(n *yaml.Node, tag string, v reflect.Value) string {
	f, err := strconv.ParseFloat(n.Value, v.Type().Bits())
	if tag != "!!int" && tag != "!!float" || err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return "must be a number"
	}
	v.SetFloat(f)
	return ""
}

// describe prints what a node is: a value as it is there, strings in quotes.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.AliasNode:
		return "*" + n.Value
	case n.ShortTag() == "!!str":
		return strconv.Quote(n.Value)
	default:
		return n.Value
	}
}
