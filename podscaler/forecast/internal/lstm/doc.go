// Package lstm is a layer of LSTM units, with its gradient and a way to descend it. The forecaster
// LSTM teaches it a series.
package lstm

const wordBytes = 8
