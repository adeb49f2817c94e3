// Package types has no purpose.
package types
