package nodescaler

import (
	"slices"
	"strconv"
	"strings"
)

// Affinity is a pod's required node affinity: the node must meet one of the terms. Without terms no
// node does.
type Affinity []Term

// Term is a set of requirements that a node must meet together. No node meets an empty term.
type Term []Requirement

// And returns the affinity of which every term has the requirement, too. An empty term is met by no
// node and stays so.
func (a Affinity) And(r Requirement) Affinity {
	if a == nil {
		return Affinity{{r}}
	}
	all := make(Affinity, len(a))
	for i, t := range a {
		if all[i] = t; len(t) > 0 {
			all[i] = append(slices.Clone(t), r)
		}
	}
	return all
}

// Requirement is a condition on one label of a node.
type Requirement struct {
	Key      string
	Operator Operator
	Values   []string `json:",omitempty"`
}

// Operator says how a label is compared with the values of a requirement.
type Operator string

// The operators of Kubernetes. An absent label is in no list of values, and compares with no
// number.
const (
	In           Operator = "In"
	NotIn        Operator = "NotIn"
	Exists       Operator = "Exists"
	DoesNotExist Operator = "DoesNotExist"
	Gt           Operator = "Gt"
	Lt           Operator = "Lt"
)

// NameField is the key of requirements on a node's name, which is not a label. A future node has no
// name yet.
const NameField = "metadata.name"

// Meets reports whether the node meets one of the terms.
func (a Affinity) Meets(n *Node) bool {
	for _, t := range a {
		if t.meets(n) {
			return true
		}
	}
	return false
}

func (t Term) meets(n *Node) bool {
	for i := range t {
		if !t[i].meets(n) {
			return false
		}
	}
	return len(t) > 0
}

func (r *Requirement) meets(n *Node) bool {
	value, has := n.Labels[r.Key]
	if r.Key == NameField {
		value, has = n.Name, n.Name != ""
	}
	switch r.Operator {
	case In:
		return has && slices.Contains(r.Values, value)
	case NotIn:
		return !has || !slices.Contains(r.Values, value)
	case Exists:
		return has
	case DoesNotExist:
		return !has
	case Gt, Lt:
		return has && r.compares(value)
	}
	return false
}

// compares reports whether a label's number is on the right side of the requirement's.
func (r *Requirement) compares(value string) bool {
	if len(r.Values) != 1 {
		return false
	}
	is, err := strconv.ParseInt(value, 10, 64)
	than, wrong := strconv.ParseInt(r.Values[0], 10, 64)
	if err != nil || wrong != nil {
		return false
	}
	if r.Operator == Gt {
		return is > than
	}
	return is < than
}

// String is the affinity in words: zone in (a, b) and disk exists, or gen > 3.
func (a Affinity) String() string {
	if len(a) == 0 {
		return "what no node can meet"
	}
	terms := make([]string, len(a))
	for i, t := range a {
		all := make([]string, len(t))
		for j := range t {
			all[j] = t[j].String()
		}
		terms[i] = strings.Join(all, " and ")
	}
	return strings.Join(terms, ", or ")
}

func (r *Requirement) String() string {
	values := strings.Join(r.Values, ", ")
	switch r.Operator {
	case In:
		if len(r.Values) == 1 {
			return r.Key + "=" + values
		}
		return r.Key + " in (" + values + ")"
	case NotIn:
		return r.Key + " not in (" + values + ")"
	case Exists:
		return r.Key + " exists"
	case DoesNotExist:
		return r.Key + " does not exist"
	case Gt:
		return r.Key + " > " + values
	case Lt:
		return r.Key + " < " + values
	}
	return r.Key + " " + string(r.Operator) + " " + values
}

// appendClass writes the affinity so that different ones have different texts.
func (a Affinity) appendClass(b []byte) []byte {
	b = append(b, '[')
	for _, t := range a {
		b = append(b, '(')
		for i := range t {
			b = strconv.AppendQuote(strconv.AppendQuote(b, t[i].Key), string(t[i].Operator))
			for _, v := range t[i].Values {
				b = strconv.AppendQuote(b, v)
			}
			b = append(b, ' ')
		}
		b = append(b, ')')
	}
	return append(b, ']')
}
