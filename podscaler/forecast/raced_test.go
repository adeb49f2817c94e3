//go:build race

package forecast_test

// raced says that the race detector is on, under which arithmetic takes thirty times as long.
const raced = true
