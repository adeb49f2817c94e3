// Package clock has no purpose.
package clock
