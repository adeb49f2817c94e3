// Package realnode runs what no other lab does: the machines that Plimsoll orders boot, a real
// kubelet in them joins the lab's control plane by kubeadm, and containers run there.
package realnode
