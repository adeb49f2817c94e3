package v1alpha1

import (
	"encoding/json"
	"strings"
)

// Duration is a length of time of at most four numbers with their units, which are h, m, s and ms:
// 30s, 1m30s, 1h.
//
// +kubebuilder:validation:MaxLength=28
// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,5}(h|m|s|ms)){1,4}$')",message="must be a length of time of one to four numbers, each with its unit, h, m, s or ms, not days: 30s, 1m30s, 720h"
type Duration string

// Decimals are whole numbers, or decimals in quotes. Their Go form is the text: it is read where it
// is known how exactly.

// Money is an amount of the price book's currency, exact to a millionth.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=19
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 999999999999 : self.matches('^[0-9]{1,12}([.][0-9]{1,6})?$')",message="must be a number from 0 to 999999999999 with at most 6 decimals: 25, 0.042"
type Money string

// Watts is electric power, exact to a thousandth.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=13
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 999999999 : self.matches('^[0-9]{1,9}([.][0-9]{1,3})?$')",message="must be a number from 0 to 999999999 with at most 3 decimals: 120, 92.5"
type Watts string

// Percent is a proportion in percent, exact to a thousandth.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=10
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 999999 : self.matches('^[0-9]{1,6}([.][0-9]{1,3})?$')",message="must be a number from 0 to 999999 with at most 3 decimals, without a sign for percent: 25, 12.5"
type Percent string

// Ratio is a plain number of at least 0.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 999999 : self.matches('^[0-9]{1,6}([.][0-9]{1,9})?$')",message="must be a number from 0 to 999999 with at most 9 decimals: 1, 0.75"
type Ratio string

// Number is a plain number, which may be below 0.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= -999999999 && self <= 999999999 : self.matches('^-?[0-9]{1,9}([.][0-9]{1,9})?$')",message="must be a number from -999999999 to 999999999 with at most 9 decimals: 3, -0.5"
type Number string

// Cores is a number of cores: 2, "0.5", 500m.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=11
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 9999999 : self.matches('^([0-9]{1,7}([.][0-9]{1,3})?|[0-9]{1,10}m)$')",message="must be a number of cores from 0 to 9999999, with at most 3 decimals, or of thousandths with an m: 2, 0.5, 500m"
type Cores string

// Quantity is an amount as Kubernetes writes it, in whole thousandths: 25m, "0.5", 10, 2k, 1Mi.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=19
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 999999999999999 : self.matches('^([0-9]{1,15}([.][0-9]{1,3})?|[0-9]{1,15}m|[0-9]{1,12}(k|Ki)|[0-9]{1,9}(M|Mi)|[0-9]{1,6}(G|Gi)|[0-9]{1,3}(T|Ti))$')",message="must be an amount of at least 0 as Kubernetes writes it, in whole thousandths: 10, 0.5, 25m, 2k, 1Mi"
type Quantity string

// Amount is how much there is of a resource: a whole number, or a size in bytes: 1, 20Gi.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 999999999999999 : self.matches('^([1-9][0-9]{0,14}|[1-9][0-9]{0,5}(k|M|G|T|Ki|Mi|Gi|Ti))$')",message="must be a whole number of at least 1, or one with its unit, k, M, G, T, Ki, Mi, Gi or Ti: 1, 20Gi"
type Amount string

// Size is a number of bytes with its unit: 8GB is 10⁹ of them, 8GiB and 8Gi are 2³⁰.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,6}([.][0-9]{1,6})?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB|k|M|G|T|Ki|Mi|Gi|Ti)$')",message="must be a number of at most 6 decimals with its unit, B to TB, KiB to TiB or Ki to Ti: 8GB, 512MiB, 20Gi"
type Size string

// UnmarshalJSON reads a number or a text.
func (m *Money) UnmarshalJSON(data []byte) error { return unmarshal((*string)(m), data) }

// UnmarshalJSON reads a number or a text.
func (w *Watts) UnmarshalJSON(data []byte) error { return unmarshal((*string)(w), data) }

// UnmarshalJSON reads a number or a text.
func (p *Percent) UnmarshalJSON(data []byte) error { return unmarshal((*string)(p), data) }

// UnmarshalJSON reads a number or a text.
func (r *Ratio) UnmarshalJSON(data []byte) error { return unmarshal((*string)(r), data) }

// UnmarshalJSON reads a number or a text.
func (n *Number) UnmarshalJSON(data []byte) error { return unmarshal((*string)(n), data) }

// UnmarshalJSON reads a number or a text.
func (c *Cores) UnmarshalJSON(data []byte) error { return unmarshal((*string)(c), data) }

// UnmarshalJSON reads a number or a text.
func (q *Quantity) UnmarshalJSON(data []byte) error { return unmarshal((*string)(q), data) }

// UnmarshalJSON reads a number or a text.
func (a *Amount) UnmarshalJSON(data []byte) error { return unmarshal((*string)(a), data) }

// unmarshal reads a number as the text it is written in.
func unmarshal(into *string, data []byte) error {
	if strings.HasPrefix(string(data), `"`) {
		return json.Unmarshal(data, into)
	}
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	*into = n.String()
	return nil
}

// UnmarshalJSON reads a number or a text.
func (o *Overcommit) UnmarshalJSON(data []byte) error { return unmarshal((*string)(o), data) }

// UnmarshalJSON reads a number or a text.
func (v *HostVCPU) UnmarshalJSON(data []byte) error { return unmarshal((*string)(v), data) }
