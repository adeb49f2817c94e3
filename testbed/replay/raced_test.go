//go:build race

package replay

// raced says that the race detector is on, under which arithmetic takes ten times as long.
const raced = true
