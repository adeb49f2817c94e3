package pvesim

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/vmconf"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// savedFormat is what a saved cluster begins with. A file of another format is refused.
const savedFormat = "plimsoll/pvesim/1"

// savedCluster is a cluster as it is saved: all that does not follow from the rest. Calls that are
// being served are lost, as if the daemons had been restarted, and so are tasks that run.
type savedCluster struct {
	Format   string            `json:"format"`
	Config   world.Config      `json:"config"`
	Began    time.Time         `json:"began"`
	Now      time.Time         `json:"now"`
	Until    time.Time         `json:"agreeUntil"` // zero if the hosts agree on who is there
	Hosts    []savedHost       `json:"hosts"`
	Guests   []savedGuest      `json:"guests"`
	Storages []savedStorage    `json:"storages"`
	Pools    []savedPool       `json:"pools"`
	Access   access.Saved      `json:"access"`
	Options  map[string]any    `json:"options"`
	HA       savedHA           `json:"ha"`
	Faults   []savedFault      `json:"faults"`
	Injected int               `json:"injected"`
	Lost     []savedLink       `json:"lost"`
	Chance   map[string][]byte `json:"chance"`
}

type savedHost struct {
	Host     world.Host               `json:"host"`
	ID       int                      `json:"id"`
	IP       string                   `json:"ip"`
	Up       bool                     `json:"up"`
	Island   int                      `json:"island"`
	Members  []string                 `json:"members"`
	Known    map[int]savedPlace       `json:"known"` // null with the majority
	Heard    map[string]*world.Report `json:"heard"`
	Tasks    []world.Task             `json:"tasks"`
	PIDs     int                      `json:"pids"`
	Since    time.Time                `json:"since"`
	Zone     string                   `json:"zone"`
	Tells    time.Time                `json:"tells"`
	Returns  time.Time                `json:"returns"`
	Follows  time.Time                `json:"follows"`
	Starting bool                     `json:"starting"`
}

type savedPlace struct{ Host, Tags, Lock string }

type savedGuest struct {
	ID         int                `json:"id"`
	Host       string             `json:"host"`
	Conf       map[string]string  `json:"conf"`
	Pending    map[string]*string `json:"pending"`
	Forced     map[string]bool    `json:"forced"`
	Made       map[string]string  `json:"made"`
	Snapshots  []vmconf.Snapshot  `json:"snapshots"`
	State      string             `json:"state"`
	Since      time.Time          `json:"since"`
	PID        int                `json:"pid"`
	Awake      bool               `json:"awake"`
	Agent      bool               `json:"agent"`
	Boots      int                `json:"boots"`
	BootsUntil time.Time          `json:"bootsUntil"` // zero if it does not boot
	Seed       *[3][]byte         `json:"seed"`
	Execs      int                `json:"execs"`
	Files      map[string][]byte  `json:"files"`
	Firewall   map[string]string  `json:"firewall"`
}

type savedStorage struct {
	Storage world.Storage     `json:"storage"`
	Conf    map[string]string `json:"conf"`
	Volumes []savedVolume     `json:"volumes"`
}

type savedVolume struct {
	Place string
	world.Volume
}

type savedPool struct {
	Name     string   `json:"name"`
	Comment  string   `json:"comment"`
	Guests   []int    `json:"guests"`
	Storages []string `json:"storages"`
}

type savedHA struct {
	Resources map[string]map[string]string `json:"resources"`
	Groups    map[string]map[string]string `json:"groups"`
	Rules     map[string]map[string]string `json:"rules"`
	Ordinal   int                          `json:"ordinal"`
	Services  map[string]savedService      `json:"services"`
	Wishes    []world.Wish                 `json:"wishes"`
	Master    string                       `json:"master"`
	Stamp     time.Time                    `json:"stamp"`
	Away      map[string]time.Time         `json:"away"`
	Next      time.Time                    `json:"next"`
	Awake     bool                         `json:"awake"`
}

type savedService struct {
	Host, State, Goal string
	Fails             int
	Limit             time.Duration
}

type savedFault struct {
	Line   string    `json:"line"`
	Number int       `json:"number"`
	Put    time.Time `json:"put"`
	On     bool      `json:"on"`
	Acts   bool      `json:"acts"`
	Seen   int       `json:"seen"`
	Struck int       `json:"struck"`
}

type savedLink struct {
	From, To int
	Since    time.Time
}

// Save writes the whole state of the cluster. Tasks that run are written as ended, with an
// unexpected status, as after a restart of the daemons; calls that are being served are not
// written.
func (c *Cluster) Save(w io.Writer) error {
	var text []byte
	var err error
	c.With(func() { text, err = json.MarshalIndent(c.saved(), "", "\t") })
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

func (c *Cluster) saved() savedCluster {
	s := savedCluster{
		Format: savedFormat, Config: c.Config, Began: c.Began, Now: c.Clock, Access: c.Access.Saved(), Options: c.Options, HA: saveHA(c.HA),
		Injected: c.Faults.Put, Chance: map[string][]byte{}, Faults: []savedFault{}, Lost: []savedLink{},
	}
	if c.Moving {
		s.Until = c.Until
	}
	for _, h := range c.Nodes {
		s.Hosts = append(s.Hosts, saveHost(h, c.Clock))
	}
	for _, id := range world.Sorted(c.VMs) {
		s.Guests = append(s.Guests, savedVM(c.VMs[id], c.Clock))
	}
	for _, name := range world.Sorted(c.Storages) {
		s.Storages = append(s.Storages, saveStorage(c.Storages[name]))
	}
	for _, name := range world.Sorted(c.Access.Pools) {
		p := c.Access.Pools[name]
		s.Pools = append(s.Pools, savedPool{name, p.Comment, world.Sorted(p.Vms), world.Sorted(p.Storages)})
	}
	for _, f := range c.Afoot {
		s.Faults = append(s.Faults, savedFault{f.String(), f.Number, f.Since, f.On, f.Acts, f.Seen, f.Struck})
	}
	for _, from := range c.Nodes {
		for _, to := range c.Nodes {
			if since, is := c.Lost[[2]int{from.ID, to.ID}]; is {
				s.Lost = append(s.Lost, savedLink{from.ID, to.ID, since})
			}
		}
	}
	for name, pcg := range c.Chance {
		s.Chance[name], _ = pcg.MarshalBinary() // it never fails
	}
	return s
}

func saveHost(h *world.Node, now time.Time) savedHost {
	s := savedHost{
		Host: h.Host, ID: h.ID, IP: h.IP, Up: h.Up, Island: h.Island, Members: []string{}, Heard: map[string]*world.Report{}, Tasks: []world.Task{},
		PIDs: h.PIDs, Since: h.Since, Zone: h.Zone, Tells: h.Tells, Returns: h.Returns, Follows: h.Follows, Starting: h.Starting,
	}
	for other := range h.Members {
		s.Members = append(s.Members, other.Name)
	}
	slices.Sort(s.Members)
	if h.Known != nil {
		s.Known = map[int]savedPlace{}
		for id, at := range h.Known {
			s.Known[id] = savedPlace{at.Host.Name, at.Tags, at.Lock}
		}
	}
	for by, r := range h.Heard {
		s.Heard[by.Name] = r
	}
	for _, t := range h.Tasks {
		s.Tasks = append(s.Tasks, saveTask(t, now))
	}
	return s
}

// saveTask is a task as it is found after a restart: one that ran has not come to its end.
func saveTask(t *world.Task, now time.Time) world.Task {
	s := *t
	if t.Running() {
		s.Exit, s.End = "unexpected status", now
	}
	return s
}

func savedVM(m *world.Guest, now time.Time) savedGuest {
	s := savedGuest{
		ID: m.ID, Host: m.Host.Name, Conf: m.Conf, Pending: m.Pending, Forced: m.Forced, Made: m.Made, State: m.State, Since: m.Since,
		PID: m.PID, Awake: m.Awake, Agent: m.Agent, Boots: m.Boots, Execs: m.Execs, Files: m.Files, Firewall: m.Firewall,
		Snapshots: m.Snaps,
	}
	if m.Seed != nil {
		s.Seed = &[3][]byte{m.Seed.User, m.Seed.Network, m.Seed.Meta}
	}
	if m.Guest != nil && !m.Awake {
		s.BootsUntil = m.Guest.Wakes(now)
	}
	return s
}

func saveStorage(s *world.Store) savedStorage {
	out := savedStorage{Storage: s.Storage, Conf: s.Conf, Volumes: []savedVolume{}}
	for _, place := range world.Sorted(s.Volumes) {
		for _, name := range world.Sorted(s.Volumes[place]) {
			out.Volumes = append(out.Volumes, savedVolume{place, *s.Volumes[place][name]})
		}
	}
	return out
}

// saveHA is without moves that are under way: their tasks do not come to their end.
func saveHA(a *world.HA) savedHA {
	s := savedHA{
		Resources: a.Resources, Groups: a.Groups, Rules: a.Rules, Ordinal: a.Ordinal, Services: map[string]savedService{}, Stamp: a.Stamp,
		Away: a.Away, Next: a.Next, Awake: a.Process != nil, Wishes: append([]world.Wish{}, a.Wishes...),
	}
	if a.Master != nil {
		s.Master = a.Master.Name
	}
	for sid, of := range a.Services {
		to := savedService{Host: of.Host.Name, State: of.State, Fails: of.Fails, Limit: of.Limit}
		switch {
		case of.State == "migrate":
			to.State = "started"
		case of.Goal != nil:
			to.Goal = of.Goal.Name
		}
		s.Services[sid] = to
	}
	return s
}
