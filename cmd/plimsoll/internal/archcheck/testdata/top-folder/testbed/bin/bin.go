// Package bin is only omitted at the root.
package bin
