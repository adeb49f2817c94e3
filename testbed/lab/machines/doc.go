// Package machines is the lab's Proxmox VE: an emulated cluster that is served over HTTPS, and
// whose virtual machines become nodes of the lab's cluster as the first-boot disc in them says.
//
// What an agent of RKE2 or k3s and its kubelet would do is done here. The node is registered with
// the name, labels, taints and provider id of the disc, and KWOK keeps it Ready. When the machine
// stops, the node falls silent until it runs again.
//
// [Part] is a Proxmox VE of its own; [Joining] does the same for one that another client has made,
// whose machines may be asked to be servers as well.
package machines
