// Package settings is what operators write of a Proxmox VE site and of the pools of machines there:
// keys, defaults and validation, and what they mean to the loop, to placement and to a first boot.
package settings

import (
	"fmt"
	"regexp"

	"github.com/plimsoll/plimsoll/nodescaler"
)

// Site is one Proxmox VE cluster, and what this installation of Plimsoll may do there. Secrets
// are named by file and read by whoever connects.
type Site struct {
	// Owner names this installation. It is in the tag and in the notes of every machine, and
	// nothing without it is ever touched; two installations on one cluster need two names.
	Owner string `json:"owner" strict:"required"`
	// ClusterID names the Kubernetes cluster that the machines are nodes of, where no kubeconfig
	// leads to it. Beside one it must be the UID of the namespace kube-system.
	ClusterID string `json:"clusterID,omitempty"`
	// AdoptUnmarked takes machines whose notes name no cluster for this one's, as they were made
	// before it was there. Without it they are kept, and never stopped or destroyed.
	AdoptUnmarked bool `json:"adoptUnmarked,omitempty"`
	// Endpoints are the hosts that serve the API, in the order they are tried:
	// https://pve1.example:8006.
	Endpoints []string `json:"endpoints" strict:"required"`
	// TokenFile holds the API token, user@realm!name=uuid. It is read again when it changes.
	TokenFile string `json:"tokenFile" strict:"required"`
	// CAFile holds the certificates that the hosts' own are signed with.
	CAFile string `json:"caFile,omitempty"`
	// Fingerprints are the SHA-256 fingerprints of certificates that are trusted by themselves.
	Fingerprints []string `json:"fingerprints,omitempty"`
	// Insecure trusts whoever answers.
	Insecure bool `json:"insecure,omitempty"`
	// ClonesPerStorage is how many clones may be in progress on a storage at once; 0 is 2. More do
	// not go faster, for they wait for the storage's lock, and the third one's wait times out.
	ClonesPerStorage int `json:"clonesPerStorage,omitempty" strict:"nonzero"`
	// HA is what happens to a machine that is to be deleted and that an administrator put under
	// high availability: empty is HAWait.
	HA HAMode `json:"ha,omitempty"`
	// OrphanGrace is how long what belongs to no machine is only reported; 0 is an hour.
	OrphanGrace nodescaler.Duration `json:"orphanGrace,omitempty" strict:"nonzero"`
	Pools       []Pool              `json:"pools" strict:"required"`
}

// HAMode is what to do with machines under high availability that are to be deleted.
type HAMode string

// The ways with machines under high availability.
const (
	HAWait  HAMode = "wait"  // leave them until an administrator takes them out of it
	HAPurge HAMode = "purge" // take them out of it in deleting them
)

// Read fills in what the pools' join profiles have in files of their own.
func (s *Site) Read(read func(path string) ([]byte, error)) error {
	f := NewFaults()
	for i := range s.Pools {
		f.index("pools", i).join("join", s.Pools[i].Join.Read(read))
	}
	return f.Err()
}

// KeyOf is what the keys of a pool lie in.
func (s *Site) KeyOf(pool int) string {
	if at := s.Pools[pool].At; at != "" {
		return at
	}
	return fmt.Sprintf("pools[%d]", pool)
}

// clusterID is what may name a cluster: the UID of its namespace kube-system, or what its
// administrator chose.
var clusterID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// ValidClusterID reports whether text may name a cluster.
func ValidClusterID(text string) bool { return clusterID.MatchString(text) }

// tagPrefix begins the tag that says whose a machine is: plimsoll_ and the owner.
const tagPrefix = "plimsoll_"

// OwnerTag is the tag on all machines of an owner.
func OwnerTag(owner string) string { return tagPrefix + owner }
