package pvesim

import "time"

// How long the server waits for things. They are all here, so that one look shows what the
// emulated cluster's days are made of.
const (
	waitUnauthorized = 3 * time.Second  // before every 401
	waitFile         = 10 * time.Second // for the lock on a VM's configuration
	waitFileOfClone  = 1 * time.Second  // for those of a clone and its source
	waitStorage      = 10 * time.Second // for the lock on a storage
	waitQuorum       = 10 * time.Second // for a cluster-wide lock without quorum
	waitAgent        = 3 * time.Second  // for a guest agent that does not answer
	waitProxy        = 30 * time.Second // for pvedaemon, or another host
	waitLost         = 8 * time.Second  // until hosts agree that one has gone: a token's time-out, then consensus
	waitFound        = 3 * time.Second  // until they agree that one has come
	waitShutdown     = 60 * time.Second // for a guest to go down, unless told otherwise
	broadcastEvery   = 10 * time.Second // of what hosts tell about their VMs
	broadcastExpires = 5 * time.Minute
	keepAliveIdle    = 5 * time.Second
	keepAliveCalls   = 100
	rebootTakes      = 2 * time.Minute // of a host that starts anew
	daemonWorkers    = 3
)
