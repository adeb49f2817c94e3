// Package pricing says it again.
package pricing
