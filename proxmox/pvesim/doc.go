// Package pvesim emulates the API of a Proxmox VE cluster: its authentication and permissions, its
// verification of parameters, its status lines, its tasks and locks, the stale lists it shows and
// the ways in which it fails. It is what Plimsoll is tested against, and what a laboratory
// without hardware runs on.
//
// Everything that takes time is a process: code that reads from top to bottom and sleeps in the
// emulated cluster's own time. That time either follows the wall clock, as fast as it is asked to,
// or passes only while a caller waits, so that an hour of trouble takes milliseconds and repeats
// exactly.
package pvesim
