// Package sim reads a file.
package sim

import _ "os"
