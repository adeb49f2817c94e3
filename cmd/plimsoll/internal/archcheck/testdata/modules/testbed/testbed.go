// Package testbed parses flags.
package testbed

import "github.com/spf13/cobra"
