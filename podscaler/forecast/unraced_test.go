//go:build !race

package forecast_test

const raced = false
