// Package externalscaler is the contract between KEDA and a scaler that is a program of its own.
package externalscaler

//go:generate go run ../../cmd/plimsoll/internal/protogen externalscaler.proto
