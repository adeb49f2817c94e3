// Package costs says who causes the cost of a cluster: now, of what the loop or a look at the
// cluster saw; over time, of what Prometheus kept; and to Prometheus, as series of Plimsoll's own
// and under the names that OpenCost's dashboards know.
package costs
