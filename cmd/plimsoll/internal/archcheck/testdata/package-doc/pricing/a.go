// Package pricing says why.
package pricing
