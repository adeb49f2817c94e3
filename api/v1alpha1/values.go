package v1alpha1

import (
	"encoding/json"
	"strings"
)

// Duration is a length of time of at most four numbers with their units, which are h, m, s and ms:
// 30s, 1m30s, 1h.
//
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
// +kubebuilder:validation:MaxLength=28
type Duration string

// Decimals are whole numbers, or decimals in quotes. Their Go form is the text: it is read where it
// is known how exactly.

// Money is an amount of the price book's currency, exact to a millionth.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^[0-9]{1,12}(\.[0-9]{1,6})?$`
// +kubebuilder:validation:MaxLength=19
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0 && self <= 999999999999",message="must be from 0 to 999999999999"
type Money string

// Watts is electric power, exact to a thousandth.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^[0-9]{1,9}(\.[0-9]{1,3})?$`
// +kubebuilder:validation:MaxLength=13
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0 && self <= 999999999",message="must be from 0 to 999999999"
type Watts string

// Percent is a proportion in percent, exact to a thousandth.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,3})?$`
// +kubebuilder:validation:MaxLength=10
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0 && self <= 999999",message="must be from 0 to 999999"
type Percent string

// Ratio is a plain number of at least 0.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,9})?$`
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0 && self <= 999999",message="must be from 0 to 999999"
type Ratio string

// Number is a plain number, which may be below 0.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^-?[0-9]{1,9}(\.[0-9]{1,9})?$`
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= -999999999 && self <= 999999999",message="must be from -999999999 to 999999999"
type Number string

// Cores is a number of cores: 2, "0.5", 500m.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^([0-9]{1,7}(\.[0-9]{1,3})?|[0-9]{1,10}m)$`
// +kubebuilder:validation:MaxLength=11
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0 && self <= 9999999",message="must be from 0 to 9999999"
type Cores string

// Quantity is an amount as Kubernetes writes it, in whole thousandths: 25m, "0.5", 10, 2k, 1Mi.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^([0-9]{1,15}(\.[0-9]{1,3})?|[0-9]{1,15}m|[0-9]{1,12}(k|Ki)|[0-9]{1,9}(M|Mi)|[0-9]{1,6}(G|Gi)|[0-9]{1,3}(T|Ti))$`
// +kubebuilder:validation:MaxLength=19
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 0 && self <= 999999999999999",message="must be from 0 to 999999999999999"
type Quantity string

// Amount is how much there is of a resource: a whole number, or a size in bytes: 1, 20Gi.
//
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
// +kubebuilder:validation:Pattern=`^([1-9][0-9]{0,14}|[1-9][0-9]{0,5}(k|M|G|T|Ki|Mi|Gi|Ti))$`
// +kubebuilder:validation:MaxLength=15
// +kubebuilder:validation:XValidation:rule="type(self) != int || self >= 1 && self <= 999999999999999",message="must be from 1 to 999999999999999"
type Amount string

// Size is a number of bytes with its unit: 8GB is 10⁹ of them, 8GiB and 8Gi are 2³⁰.
//
// +kubebuilder:validation:Pattern=`^[0-9]{1,6}(\.[0-9]{1,6})?(B|kB|KB|MB|GB|TB|KiB|MiB|GiB|TiB|k|M|G|T|Ki|Mi|Gi|Ti)$`
// +kubebuilder:validation:MaxLength=16
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
