// Package demo is a day in the life of a small on-premises cluster, in virtual time. It has three
// Proxmox hosts and a pool of workers on them. The visitors of a web shop and its search sleep at
// night, come back in the morning, order at lunch, and storm in on an evening offer. Reports are
// made after closing time.
//
// Everything but the hardware is the real thing: the simulated world calls the loop that
// production runs, with the policies that production has. A Session lets its caller move time,
// look, break things and change the price of machines, and keeps the bill of the fleet that
// would have been bought without an autoscaler. One seed gives one day, byte for byte, however
// it is cut into pieces.
package demo
