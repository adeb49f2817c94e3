// Plimsoll is an autoscaler for Kubernetes on Proxmox VE. It decides how many pods a service
// needs and which virtual machines should exist to carry them, in one plan, at the lowest price.
package main

func main() {
	ctx, env := fromProcess()
	env.Exit(run(ctx, env))
}
