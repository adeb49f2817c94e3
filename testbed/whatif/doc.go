// Package whatif plays the load of a recording again, once by the settings that it was recorded
// with and once by others, so that the two can be compared. Both are played in the simulated world,
// and what is decided there is decided by the loop that production runs. A comparison with what was
// recorded shows how far the simulated world is from the real one.
package whatif
