// Package costs says who causes the cost of a cluster. For now it reads what the loop or a look at
// the cluster saw, and for a time past what Prometheus kept. It also exports costs to Prometheus,
// as series of Plimsoll's own and under the names that OpenCost's dashboards know.
package costs
