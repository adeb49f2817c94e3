// Demo is plimsoll with the verb demo alone. It compiles in seconds, as it needs none of the
// clients of Kubernetes and Proxmox VE.
package main

import (
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/demoverb"
)

func main() {
	ctx, env := cli.FromProcess()
	env.Exit(cli.Run(ctx, env, demoverb.New))
}
