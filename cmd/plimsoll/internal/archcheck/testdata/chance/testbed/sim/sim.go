// Package sim draws from the process.
package sim

import "hash/maphash"
