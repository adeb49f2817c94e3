// Package kubesim is an emulator of the Kubernetes API server in memory, behind an
// http.RoundTripper. Clients of client-go and controller-runtime list, watch and write through it,
// also in virtual time: it opens no socket, starts no goroutine and holds no lock while it waits.
//
// It knows only what the API promises: versions and conflicts, pages and watches with bookmarks,
// patches, subresources, evictions under disruption budgets, finalizers. Controllers, the scheduler
// and kubelets are the caller's part, which reads and writes objects beside the requests.
//
// Each process has a Client of its own, with its own faults, because a network fails for one
// process at a time. Chance follows from the seed and from how often a client asked the same
// thing, so that the order of goroutines does not change it.
//
// Some things are simpler than in Kubernetes. Managed fields cover replicas only. An applied status
// replaces the whole status. Objects are not validated.
package kubesim
