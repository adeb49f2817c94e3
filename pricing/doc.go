// Package pricing says what capacity costs, now and over time.
//
// It is the leaf of the tree: money and resource units, machine shapes and hosts, the price
// book that turns a shape on a host at a time of day into a rate, and the ledger that
// integrates rates while machines come and go. Money and resources are integers; rounding
// happens once, where a number leaves the package.
package pricing
