//go:build race

package race

// On says that this program was built with the race detector.
const On = true
