//go:build !race

package upstream_test

const stride = 1
