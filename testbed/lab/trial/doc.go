// Package trial is the lab as a world of experiments. A run there is the real binary against a real
// control plane and the Proxmox emulator, with pods that serve in real time and k6 as the users.
//
// A run is scored by the rules of the simulated world, from what k6 saw of the answers, from the
// histograms of the traffic plane and from the journal that the binary kept.
package trial
