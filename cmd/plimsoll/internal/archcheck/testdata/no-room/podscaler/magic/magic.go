// Package magic is in no row of the table.
package magic

import "github.com/plimsoll/plimsoll/testbed"
