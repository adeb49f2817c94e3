// Package pricing says what capacity costs, now and over time.
//
// It is the leaf of the tree: money and resource units, machine shapes and hosts. The price book
// turns a shape on a host at a time of day into a rate. The ledger integrates rates while machines
// come and go. Money and resources are integers; rounding happens once, where a number leaves the
// package.
//
// A machine has a price of its own, and a host has a fixed part besides, which is charged once
// while it carries any machine of ours. The first is what one machine more costs on a host
// that is in use; both together are what the first machine on a host costs.
package pricing
