// Package doctor checks whether machines can be made at a site, and says how to correct what keeps
// them from it. It also lists the rights that a token needs there, and the commands that grant
// them. It only reads.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Status is what a check came to.
type Status string

// What checks come to.
const (
	OK      Status = "ok"
	Warn    Status = "warn"    // it works, and a person should know
	Fail    Status = "fail"    // machines cannot be made, or not where they should
	Skipped Status = "skipped" // something else must be fixed first
)

// Check is one thing that was looked at. Its id is stable, and means the same question always;
// id and subject together are there once.
type Check struct {
	ID      string `json:"id"` // group and question: storage.room
	Subject string `json:"subject,omitempty"`
	Status  Status `json:"status"`
	Text    string `json:"text"` // one line, which says what it is about
	// Mend is what a person can do: commands, or lines for the configuration file.
	Mend []string `json:"mend,omitempty"`
}

// Group is what the check belongs to.
func (c *Check) Group() string {
	group, _, _ := strings.Cut(c.ID, ".")
	return group
}

// The groups of checks, in the order in which they are made and reported.
const (
	GroupConnection = "connection"
	GroupCluster    = "cluster"
	GroupRights     = "rights"
	GroupTemplates  = "templates"
	GroupStorage    = "storage"
	GroupNetwork    = "network"
	GroupPools      = "pools"
	GroupMachines   = "machines"
)

// Groups are the groups of checks in order.
var Groups = []string{GroupConnection, GroupCluster, GroupRights, GroupTemplates, GroupStorage, GroupNetwork, GroupPools, GroupMachines}

// Diagnosis is what a Doctor found.
type Diagnosis struct {
	Checks []Check `json:"checks"`
	// Reached is whether any endpoint answered at all.
	Reached bool `json:"reached"`
}

// Count is how many checks came to a status.
func (d *Diagnosis) Count(s Status) int {
	n := 0
	for i := range d.Checks {
		if d.Checks[i].Status == s {
			n++
		}
	}
	return n
}

// Doctor looks at everything that a site's configuration rests on. It only reads.
type Doctor struct {
	Site       *settings.Site
	Connection pveapi.Connection
	// Known are checks that were made before, of files for example; they come first in their
	// groups.
	Known []Check
	// Making are VMIDs of machines that are being made by whoever asks: a clone shows no mark
	// before its end, and would be asked to be a stranger.
	Making []int
	// Cluster is the UID of the Kubernetes cluster; empty is unknown, and the site's own name for
	// it counts.
	Cluster string
}

// Examine makes the checks. It returns an error only for a connection that makes no sense.
func (d *Doctor) Examine(ctx context.Context) (*Diagnosis, error) {
	client, err := pveapi.Connect(d.Connection)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	token, err := d.Connection.Token()
	if err != nil {
		return nil, err
	}
	who, err := pveapi.ParseToken(token)
	if err != nil {
		return nil, err
	}
	site := d.Site.Complete()
	e := &examination{
		inventory:  &inventory{report: &report{found: Diagnosis{Checks: []Check{}}, known: d.Known}, ctx: ctx, client: client, site: &site},
		connection: &d.Connection, who: who, making: d.Making, cluster: cmp.Or(d.Cluster, site.ClusterID), now: client.Now,
		blocked: map[string][]string{}, unsure: map[string]bool{},
	}
	pools := &poolsExam{examination: e}
	for _, g := range Groups {
		e.open(g)
		if e.stopped != "" {
			e.skip(g+".all", "", "not looked at: %s", e.stopped)
			continue
		}
		e.make(g, pools)
	}
	return &e.found, ctx.Err()
}

// report is what was checked.
type report struct {
	known []Check // that were made before
	found Diagnosis
}

// inventory is what was read of the cluster, each thing once.
type inventory struct {
	*report
	ctx       context.Context
	client    *pveapi.Client
	site      *settings.Site
	hosts     []string // that are online
	all       []string // of the cluster
	looked    bool
	resources []pveapi.Resource // that the token sees
	templates map[int]*templateFound
	stores    map[string]storesOn // by host
}

// examination is a Doctor at work: what it has found, and what it has seen.
type examination struct {
	*inventory
	connection *pveapi.Connection
	cluster    string // UID of the Kubernetes cluster
	who        pveapi.Account
	making     []int
	now        func() time.Time
	stopped    string // why the groups that follow cannot be looked at

	release Release
	have    pveapi.Permissions
	zones   pveapi.Zones
	blocked map[string][]string // hosts that cannot carry a pool's machines, by pool
	unsure  map[string]bool     // pools of whose hosts that is not known
}

// storesOn are a host's storages, or why they are not known.
type storesOn struct {
	list []pveapi.StorageStatus
	err  error
}

// block notes that a host cannot carry a pool's machines. That is a fault where the configuration
// names the host, and else it is reported.
func (e *examination) block(host string, pools ...string) Status {
	status := Warn
	for i := range e.site.Pools {
		p := &e.site.Pools[i]
		if !slices.Contains(pools, p.Name) {
			continue
		}
		e.blocked[p.Name] = append(e.blocked[p.Name], host)
		if slices.Contains(p.Hosts(), host) {
			status = Fail
		}
	}
	return status
}

// make makes the checks of a group.
func (e *examination) make(group string, pools *poolsExam) {
	switch group {
	case GroupConnection:
		(&connectionExam{examination: e}).examineConnection()
	case GroupCluster:
		e.examineCluster()
	case GroupRights:
		(&rightsExam{examination: e}).examineRights()
	case GroupTemplates:
		e.examineTemplates()
	case GroupStorage:
		(&storageExam{e}).examineStorage()
	case GroupNetwork:
		(&networkExam{examination: e, seen: map[string][]pveapi.Network{}}).examineNetwork()
	case GroupPools:
		pools.examinePools()
	case GroupMachines:
		pools.examineMachines()
	}
}

// open begins a group with the checks that were made before.
func (r *report) open(group string) {
	for _, c := range r.known {
		if c.Group() == group {
			r.found.Checks = append(r.found.Checks, c)
		}
	}
}

func (r *report) add(s Status, id, subject string, fix []string, format string, args ...any) {
	r.found.Checks = append(r.found.Checks, Check{ID: id, Subject: subject, Status: s, Text: fmt.Sprintf(format, args...), Mend: fix})
}

func (r *report) ok(id, subject, format string, args ...any) {
	r.add(OK, id, subject, nil, format, args...)
}

func (r *report) skip(id, subject, format string, args ...any) {
	r.add(Skipped, id, subject, nil, format, args...)
}

// failed reports a question that was not answered. One that the token may not ask is reported among
// the rights.
func (r *report) failed(id, subject string, err error) {
	var known *pveapi.Error
	if !errors.As(err, &known) {
		r.add(Fail, id, subject, nil, "%s", err)
		return
	}
	if known.Class() == pveapi.Forbidden && known.ACLPath != "" {
		r.skip(id, subject, "not looked at: it takes %s on %s", known.Privilege, known.ACLPath)
		return
	}
	r.add(Fail, id, subject, nonEmpty(known.Advice()), "%s", known)
}

// checked reports whether a check was made already.
func (r *report) checked(id string) bool {
	return slices.ContainsFunc(r.found.Checks, func(c Check) bool { return c.ID == id })
}

// nonEmpty are those that are not empty.
func nonEmpty(all ...string) []string {
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// candidates are the hosts of the cluster that may carry a pool's machines, as far as the
// configuration says.
func (e *examination) candidates(p *settings.Pool) []string {
	named := p.Hosts()
	return slices.DeleteFunc(slices.Clone(e.hosts), func(h string) bool { return len(named) > 0 && !slices.Contains(named, h) })
}
