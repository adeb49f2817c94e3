// Package forecast says what a series of numbers will be: one forecaster a file, each with the
// idea at its head, what it needs, and when it loses; what makes distributions of their
// forecasts; and what chooses among them.
//
// A series has one value a period, 0 or above, and no clock: how long a period is and what is
// counted is the caller's business. A forecaster sees the values in their order and forgets nothing
// that it needs, so that the same values give the same forecasts, bit for bit on the same kind of
// processor.
//
// Calibrated wraps a Model and adds quantiles, by the errors that it makes at each horizon.
// An Ensemble weighs several models by how they have done, a Race takes the best of the last
// few periods as a paper on HPA+ does, and both are Models.
package forecast
