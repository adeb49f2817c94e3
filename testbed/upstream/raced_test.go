//go:build race

package upstream_test

// stride is how many moments are passed over under the race detector, which makes each a dozen times slower: what
// it looks for is the same at all of them.
const stride = 10
