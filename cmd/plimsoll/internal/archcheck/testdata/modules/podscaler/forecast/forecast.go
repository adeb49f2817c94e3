// Package forecast takes a library, and a test's.
package forecast

import (
	"github.com/DataDog/sketches-go/ddsketch"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)
