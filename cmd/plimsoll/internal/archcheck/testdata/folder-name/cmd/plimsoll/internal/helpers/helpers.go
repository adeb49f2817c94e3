// Package helpers has no purpose.
package helpers
