// Package kubelet is a small kubelet for the lab: it runs the containers of pods as processes of
// this machine, so that real programs are deployed, configured, given rights, read, replaced and
// ended by the real control plane. It is for a few pods among the many that KWOK plays.
//
// # Nodes
//
// The part plays kubelet for every node with the label [Label]: [LabelValue], whoever makes it. It
// is Ready at 127.0.0.1. A node that loses the label falls silent as one whose machine has died,
// and the processes of its pods die at once; when the label comes back, they are started again.
//
// # Containers
//
// An image has no content here. The last part of its name without tag or digest, such as plimsoll
// of ghcr.io/plimsoll/plimsoll:v0.1.0, is looked for in [Part.Programs]. So is the last part of the
// container's command[0], if it has a command: that one is run, as in life. An image that is not
// there is ErrImagePull; a command that is not there does not start.
//
// The process gets [Program.Args], the rest of the command and the args. Its environment is the
// container's with what the program is given here, PATH, HOME, TMPDIR and HOSTNAME, and nothing of
// this process's. It works in the pod's folder.
//
// # Files
//
// There is one file system. Volumes are folders of the pod, and a mount path, or anything below it,
// is replaced by the folder wherever it is in command, args and environment. A path that a program
// knows by itself is not found: what is in the volume may be changed for it by [Program.File].
// Changes of ConfigMaps and Secrets arrive within a second or two, all files of a volume at once.
//
// So client-go does not find a service account's files where it looks for them. A container that
// they are mounted into finds them by KUBECONFIG: a file that leads to the API server, trusts
// its authority and reads the account's token, which is made for the pod and renewed. What the
// account may not do, it may not.
//
// # Network
//
// A pod has an address of its own in 127.0.0.0/8, all of which is this machine on Linux (and not on
// macOS). A process that listens at that address alone does not collide with other pods; one that
// listens on all addresses does, with the first to listen on its port. $(POD_IP), by fieldRef
// status.podIP, is the address; for Plimsoll, [Plimsoll] puts it before ports without a host in
// the mounted config.yaml. Probes ask there. Services lead nowhere.
//
// # What is not done
//
// Init containers, hooks, probes other than httpGet, envFrom, resourceFieldRef, and other volumes
// than configMap, secret, emptyDir, projected and downwardAPI are refused with
// CreateContainerConfigError. Limits and security contexts hold no one back.
package kubelet
