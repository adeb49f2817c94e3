// Package copies holds what is kept of the objects of each kind, by watches, and knows whether it
// may be stale. It is also where the clients come from, since the watches go by their connections.
package copies
