package resources

import (
	"errors"
	"fmt"
	"strings"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/strict"
)

// ReadPrices reads the price book that a flag names.
func ReadPrices(env *cli.Env, flag, file string) (*pricing.Book, error) {
	data, err := env.ReadFile(file)
	if err != nil {
		return nil, cli.WithCode(cli.ExitConfig, fmt.Errorf("%s: %w", flag, err))
	}
	if strict.Has(data, "kind") {
		var m bookManifest
		if err := strict.Unmarshal(data, &m); err != nil {
			return nil, cli.Misconfigured(file, err)
		}
		return &m.Spec, nil
	}
	var book pricing.Book
	if err := strict.Unmarshal(data, &book); err != nil {
		return nil, cli.Misconfigured(file, err)
	}
	return &book, nil
}

// bookManifest is a PriceBook as it is applied to a cluster, or read from one: its spec is a price
// book.
type bookManifest struct {
	APIVersion string       `json:"apiVersion" strict:"required"`
	Kind       string       `json:"kind" strict:"required"`
	Metadata   strict.Block `json:"metadata,omitzero"`
	Spec       pricing.Book `json:"spec" strict:"required"`
	Status     strict.Block `json:"status,omitzero"`
}

// Validate refuses other kinds, and what is wrong with the book.
func (m *bookManifest) Validate() error {
	var faults []error
	if version := v1alpha1.GroupVersion.String(); m.Kind != "" && m.Kind != v1alpha1.KindPriceBook {
		return pricing.NewFault("kind", fmt.Sprintf("must be %s, was %q", v1alpha1.KindPriceBook, m.Kind))
	} else if m.APIVersion != "" && m.APIVersion != version {
		faults = append(faults, pricing.NewFault("apiVersion", fmt.Sprintf("must be %s, was %q", version, m.APIVersion)))
	}
	for _, err := range cli.Parts(m.Spec.Validate()) {
		faults = append(faults, pricing.NewFault("spec."+cli.KeyOf(err), strings.TrimPrefix(err.Error(), cli.KeyOf(err)+": ")))
	}
	return errors.Join(faults...)
}
