package world

import "time"

// How long the server waits for things. They are all here, so that one look shows what the
// emulated cluster's days are made of.
const (
	WaitUnauthorized = 3 * time.Second  // before every 401
	WaitFile         = 10 * time.Second // for the lock on a VM's configuration
	WaitFileOfClone  = 1 * time.Second  // for those of a clone and its source
	waitStorage      = 10 * time.Second // for the lock on a storage
	WaitQuorum       = 10 * time.Second // for a cluster-wide lock without quorum
	WaitAgent        = 3 * time.Second  // for a guest agent that does not answer
	WaitProxy        = 30 * time.Second // for pvedaemon, or another host
	WaitLost         = 8 * time.Second  // token's time-out, then consensus
	WaitFound        = 3 * time.Second  // until they agree that one has come
	WaitShutdown     = 60 * time.Second // for a guest to go down, unless the call says otherwise
	broadcastEvery   = 10 * time.Second // of what hosts report about their VMs
	BroadcastExpires = 5 * time.Minute
	KeepAliveIdle    = 5 * time.Second
	KeepAliveCalls   = 100
	RebootTakes      = 2 * time.Minute // of a host that starts anew
	daemonWorkers    = 3
)
