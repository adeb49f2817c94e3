package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/pricing"
)

// Host is a host as the last look showed it.
type Host struct {
	Name        string
	Online      bool
	Maintenance bool // says the cluster itself
	CPUs        int
	Memory      pricing.Bytes
	Bridges     []string // nil is unknown
}

// Guest is a virtual machine or container as the last look showed it.
type Guest struct {
	VMID      int
	Host      string
	Name      string // empty while it is cloned, and for some seconds after
	Running   bool
	Stopped   bool // and its host, which is online, says so; neither is unknown
	Template  bool
	Container bool
	Lock      string
	Pool      string
	Tags      []string
	CPUs      int // 0 is unknown, as it is of machines that are some seconds old
	Memory    pricing.Bytes
}

// Store is a storage on one host.
type Store struct {
	Name, Host  string
	Shared      bool
	Active      bool
	Total, Used pricing.Bytes // both 0 is unknown
}

// TemplateSeen is a template, with what was read of it once.
type TemplateSeen struct {
	VMID     int
	Host     string
	BootDisk string            // such as scsi0
	Size     pricing.Bytes     // of the boot disk
	Stores   []string          // that its disks lie on
	Discs    []string          // and the discs in its drives
	Devices  map[string]string // its drives with their volumes, and what it has of its host's
	Digest   string            // of its configuration: another one is another template
	Problem  string            // why it cannot be cloned
}

// Sight is what one look showed.
type Sight struct {
	At      time.Time
	Quorate bool
	Whole   bool   // hosts are all that the cluster has
	Hosts   []Host // by name
	Guests  map[int]*Guest
	Stores  []Store
}

// Host is the host of that name, or nil.
func (s *Sight) Host(name string) *Host {
	i, found := slices.BinarySearchFunc(s.Hosts, name, func(h Host, name string) int { return strings.Compare(h.Name, name) })
	if !found {
		return nil
	}
	return &s.Hosts[i]
}

// Online reports whether a host is known and online.
func (s *Sight) Online(host string) bool {
	h := s.Host(host)
	return h != nil && h.Online
}

// Store is a storage as a host sees it, or nil.
func (s *Sight) Store(name, host string) *Store {
	for i := range s.Stores {
		if s.Stores[i].Name == name && s.Stores[i].Host == host {
			return &s.Stores[i]
		}
	}
	return nil
}

// Unnamed reports whether the name of a guest is not known: that of one being made is listed as
// missing, or as VM and its id.
func (g *Guest) Unnamed() bool { return g.Name == "" || g.Name == fmt.Sprintf("VM %d", g.VMID) }
