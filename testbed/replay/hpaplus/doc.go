// Package hpaplus runs the experiments that came with HPA+: scalers, forecasters and models of the
// HPA side by side under counted loads.
//
// An experiment is a file like those of package testbed, distinguished by its block replay. What is
// compared, a row, is a scaler, a forecaster or a model; what is held fixed meanwhile is a case;
// and it is tried on traces, of which drawn ones are drawn anew in every trial. Forecasts are made
// once for a trace and scaled with it, so that a grid of cases costs no more training than one of
// them.
package hpaplus
