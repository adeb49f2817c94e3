// Package plimsoll is at the root.
package plimsoll
