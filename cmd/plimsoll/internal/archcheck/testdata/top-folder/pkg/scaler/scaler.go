// Package scaler is in a folder that the root does not have.
package scaler
