package allocation

import (
	"math/big"

	"github.com/plimsoll/plimsoll/pricing"
)

// divide splits an amount in proportion to weights, which must not be negative; the shares add
// up to it, and each is nearer to its exact value than one. With no weight at all there are no
// shares.
//
// The bounds between the shares are rounded, half up, and not the shares, so that no remainder is
// left over.
func divide(amount pricing.Rate, weights []int64) []pricing.Rate {
	sum := new(big.Int)
	for _, w := range weights {
		sum.Add(sum, big.NewInt(w))
	}
	if sum.Sign() == 0 {
		return nil
	}
	shares := make([]pricing.Rate, len(weights))
	so, bound, before := new(big.Int), new(big.Int), pricing.Rate(0)
	twice, double := big.NewInt(0).Lsh(big.NewInt(int64(amount)), 1), new(big.Int).Lsh(sum, 1)
	for i, w := range weights {
		so.Add(so, big.NewInt(w))
		bound.Mul(so, twice).Add(bound, sum)
		upTo := pricing.Rate(bound.Quo(bound, double).Int64()) // at most the amount
		shares[i], before = upTo-before, upTo
	}
	return shares
}

// divideOr divides by the weights that instead makes where there are none.
func divideOr(amount pricing.Rate, weights []int64, instead func([]int64)) []pricing.Rate {
	shares := divide(amount, weights)
	if shares == nil && len(weights) > 0 {
		weights = make([]int64, len(weights))
		instead(weights)
		shares = divide(amount, weights)
	}
	return shares
}

func evenly(weights []int64) {
	for i := range weights {
		weights[i] = 1
	}
}

func toTheLast(weights []int64) { weights[len(weights)-1] = 1 }
