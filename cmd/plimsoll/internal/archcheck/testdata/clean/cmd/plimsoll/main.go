// Plimsoll wires everything.
package main

import (
	"fmt"
	"os"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/env"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/testbed/sim"
	"github.com/spf13/cobra"
)

func main() {
	fmt.Println(os.Args, env.Env, dashboard.Show, sim.Run, cobra.Command{})
}
