// Package pve takes from the test bed.
package pve

import "github.com/plimsoll/plimsoll/testbed"
