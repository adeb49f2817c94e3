// Package lab may.
package lab

import "os"
