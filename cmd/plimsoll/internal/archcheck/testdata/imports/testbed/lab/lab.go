// Package lab calls the command.
package lab

import "github.com/plimsoll/plimsoll/cmd/plimsoll/internal/env"
