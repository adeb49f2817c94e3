package resources

import (
	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/pricing"
)

// Book returns the prices that a PriceBook states.
func Book(b *v1alpha1.PriceBook) (*pricing.Book, error) {
	var f faults
	var book pricing.Book
	f.read(spec, b.Spec, &book)
	if err := f.err(); err != nil {
		return nil, err
	}
	return &book, nil
}
