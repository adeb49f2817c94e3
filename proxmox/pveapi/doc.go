// Package pveapi is a client of Proxmox VE that takes no failure for success.
//
// It is careful where the API is treacherous. The text of an error is in the status line, and
// behind some proxies only in the body. A status of 595 means that the host meant was not reached
// and nothing was done, 596 that it was reached and what it did is unknown. A good answer to an
// order is no more than "accepted": what became of it is in the task that the answer names. A token
// without rights gets empty lists and no error. What could not be read, understood or finished is
// an *Error with a Class that says what may be done about it; the class Unknown says nothing.
//
// What may be repeated is repeated here: reads, and what surely never left. An order that may have
// arrived is never sent twice. It fails as Unanswered, and its caller looks it up.
//
// go-proxmox makes the requests and reads the envelopes. What is below it is ours: endpoints,
// certificates, the token, statuses, what was sent. So is what is above it: tasks, uploads, values
// that are unknown. It takes some failures for success and repeats some orders.
package pveapi
