package pve

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// FleetConfig is what a fleet is made of.
type FleetConfig struct {
	Client *pveapi.Client
	Owner  string
	// Cluster is the UID of the Kubernetes cluster that the machines are nodes of. It is in the
	// notes of each; those with another one are never touched.
	Cluster string
	// AdoptUnmarked takes machines whose notes name no cluster for this one's. Without it they are
	// kept, and never stopped or destroyed. Nothing is written to them for it.
	AdoptUnmarked bool
	// AnyCluster takes the owner's machines for ours whichever cluster they belong to: for who only
	// looks, or makes the clusters themselves. Without Cluster, what is made names none.
	AnyCluster bool
	// Pools are those to begin with; Configure replaces them.
	Pools []settings.Pool
	// Prices says what hosts and machines cost, until Configure says otherwise; nil is the default
	// book.
	Prices  *pricing.Book
	Intents intents.Store
	// Nodes lists the cluster's nodes. Without it the fleet cannot know which machines have joined,
	// and none of them fails for not having done so.
	Nodes func(ctx context.Context) ([]Node, error)
	// LastLook asks the API server itself what nodes name a machine and what they hold. It is asked
	// immediately before a machine is shut down, stopped or destroyed. Without it what Nodes listed
	// counts.
	LastLook func(ctx context.Context, id nodescaler.Identity) (nodescaler.Sight, error)
	// RemoveNode removes the node object of a machine that is gone. It is asked again until it
	// returns nil; one that is gone already is no error. Nil leaves node objects to another client.
	RemoveNode func(ctx context.Context, name string) error
	Now        func() time.Time
	// Rand chooses VMIDs and how long is waited before something is tried again.
	Rand *rand.Rand
	// Parallel is how many calls are made at a time. With 1 they are made one after the other on
	// the goroutine of Tick, and the same answers give the same calls; 0 is 4.
	Parallel int
	// Watch looks and changes nothing: orders and returns are refused, machines that are on their
	// way are left where they are, and no call is made but reads.
	Watch bool
	// Report is given what happens, in order. It must not call the fleet; nil drops it.
	Report func(Event)
	// Timed is given how long machines took for the stages of becoming ready nodes. It must not
	// call the fleet; nil drops it.
	Timed func(Lead)

	ClonesPerStorage int                 // see Site
	HA               settings.HAMode     // see Site
	OrphanGrace      nodescaler.Duration // see Site
}

// Node is a node of the cluster, as far as it says which machine it is.
type Node struct {
	Name, ProviderID, SystemUUID string
	Ready                        bool
	JoinedAt                     time.Time
	// ReadySince is when Ready last became true, where that is known.
	ReadySince time.Time
	// Version is its kubelet's; empty if unknown.
	Version string
}

func (c *FleetConfig) check() error {
	f := settings.NewFaults()
	f.Must(c.Client != nil, "client", "be set", "nil")
	f.Must(c.Intents != nil, "intents", "be set", "nil")
	f.Must(c.Now != nil, "now", "be set", "nil")
	f.Must(c.Rand != nil, "rand", "be set", "nil")
	f.Must(c.Parallel >= 0, "parallel", "be ≥ 0", c.Parallel)
	f.Must(settings.ValidClusterID(c.Cluster) || c.AnyCluster && c.Cluster == "", "cluster", "be the UID of the cluster", c.Cluster)
	s := settings.Site{Owner: c.Owner, Pools: c.Pools, ClonesPerStorage: c.ClonesPerStorage, HA: c.HA, OrphanGrace: c.OrphanGrace}
	s.CheckWork(f)
	return f.Err()
}
