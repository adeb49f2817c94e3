// Package sim is a cluster on virtual machines with virtual time. Hosts have room, machines are
// cloned, boot and join, and a scheduler binds pods. Pods serve requests under processor sharing
// with a CPU quota, and users send them one by one.
//
// World satisfies the ports of the loop, so that the code that decides here is the code that
// decides in production. Time is an event heap, and every source of chance has a stream of its
// own, derived from one seed. The same seed gives the same run, byte for byte, and a new draw
// in one place moves nothing in another.
package sim
