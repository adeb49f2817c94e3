// Package grpc clashes.
package grpc
