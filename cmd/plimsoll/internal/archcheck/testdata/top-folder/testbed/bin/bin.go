// Package bin is only left out at the root.
package bin
