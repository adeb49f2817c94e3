// Package dashboard is a web page over the loop's records, with the JSON that it is drawn from.
// Records come from a process that runs, from a journal's file or from a simulation, and the page
// shows all alike: what there is, what was decided and why, and what it costs, at any record.
package dashboard
