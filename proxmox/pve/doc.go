// Package pve speaks with Proxmox VE: a client that takes no failure for success, and the machine
// port that stands on it.
//
// The client is careful where the API is treacherous. The text of an error is in the status line,
// and behind some proxies only in the body. A status of 595 means that the host meant was not
// reached and nothing was done, 596 that it was and nobody knows what it did. A good answer to an
// order is no more than "accepted": what became of it is in the task that the answer names. A token
// without rights gets empty lists and no error. Whatever could not be read, understood or finished
// is an *Error with a Class that says what may be done about it; the class Unknown says nothing.
//
// What may be repeated is repeated here: reads, and whatever surely never left. An order that may
// have arrived is never sent twice. It fails as Unanswered, and whoever gave it looks it up.
//
// go-proxmox makes the requests and reads the envelopes; what is below it (endpoints, certificates,
// the token, statuses, what was sent) and above it (tasks, uploads, values that are unknown) is ours,
// because it takes some failures for success and repeats some orders.
package pve
