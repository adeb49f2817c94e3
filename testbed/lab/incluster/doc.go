// Package incluster runs the binary in a lab, as it runs in a cluster: objects go in by the
// Kubernetes API, machines come and go on an emulated Proxmox VE, and what happened is read from
// both.
package incluster
