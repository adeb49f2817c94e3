package pvesim

import (
	"encoding/json"
	"io"
	"slices"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
)

// savedFormat is what a saved cluster begins with. A file of another format is refused.
const savedFormat = "plimsoll/pvesim/1"

// savedCluster is a cluster as it is saved: all that does not follow from the rest. Calls that are
// being served are lost, as if the daemons had been restarted, and so are tasks that run.
type savedCluster struct {
	Format   string            `json:"format"`
	Config   Config            `json:"config"`
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
	Host     Host               `json:"host"`
	ID       int                `json:"id"`
	IP       string             `json:"ip"`
	Up       bool               `json:"up"`
	Island   int                `json:"island"`
	Members  []string           `json:"members"`
	Known    map[int]savedPlace `json:"known"` // null with the majority
	Heard    map[string]*report `json:"heard"`
	Tasks    []savedTask        `json:"tasks"`
	PIDs     int                `json:"pids"`
	Since    time.Time          `json:"since"`
	Zone     string             `json:"zone"`
	Tells    time.Time          `json:"tells"`
	Returns  time.Time          `json:"returns"`
	Follows  time.Time          `json:"follows"`
	Starting bool               `json:"starting"`
}

type savedPlace struct{ Host, Tags, Lock string }

type savedTask struct {
	UPID, Kind, ID, User, Token string
	PID                         int
	PStart                      int64
	Start, End                  time.Time
	Exit                        string
	Log                         []string
}

type savedGuest struct {
	ID         int                `json:"id"`
	Host       string             `json:"host"`
	Conf       map[string]string  `json:"conf"`
	Pending    map[string]*string `json:"pending"`
	Forced     map[string]bool    `json:"forced"`
	Made       map[string]string  `json:"made"`
	Snapshots  []savedSnapshot    `json:"snapshots"`
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

type savedSnapshot struct {
	Name, Description, Parent, State string
	At                               time.Time
	Conf                             map[string]string
}

type savedStorage struct {
	Storage Storage           `json:"storage"`
	Conf    map[string]string `json:"conf"`
	Volumes []savedVolume     `json:"volumes"`
}

type savedVolume struct {
	Place, Name, Content, Format string
	Size                         int64
	VMID                         int
	At                           time.Time
	Parent, Guest, Notes         string
	Data                         []byte
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
	Wishes    []haWish                     `json:"wishes"`
	Master    string                       `json:"master"`
	Stamp     time.Time                    `json:"stamp"`
	Away      map[string]time.Time         `json:"away"`
	Next      time.Time                    `json:"next"`
	Awake     bool                         `json:"awake"`
}

type savedService struct {
	Host, State, Goal string
	Fails             int
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
		Format: savedFormat, Config: c.cfg, Began: c.began, Now: c.Clock, Access: c.access.Saved(), Options: c.options, HA: saveHA(c.ha),
		Injected: c.faults.Put, Chance: map[string][]byte{}, Faults: []savedFault{}, Lost: []savedLink{},
	}
	if c.moving {
		s.Until = c.until
	}
	for _, h := range c.hosts {
		s.Hosts = append(s.Hosts, saveHost(h, c.Clock))
	}
	for _, id := range sorted(c.vms) {
		s.Guests = append(s.Guests, savedVM(c.vms[id], c.Clock))
	}
	for _, name := range sorted(c.storages) {
		s.Storages = append(s.Storages, saveStorage(c.storages[name]))
	}
	for _, name := range sorted(c.access.Pools) {
		p := c.access.Pools[name]
		s.Pools = append(s.Pools, savedPool{name, p.Comment, sorted(p.Vms), sorted(p.Storages)})
	}
	for _, f := range c.afoot {
		s.Faults = append(s.Faults, savedFault{f.String(), f.Number, f.Since, f.On, f.acts, f.Seen, f.Struck})
	}
	for _, from := range c.hosts {
		for _, to := range c.hosts {
			if since, is := c.lost[[2]int{from.id, to.id}]; is {
				s.Lost = append(s.Lost, savedLink{from.id, to.id, since})
			}
		}
	}
	for name, pcg := range c.chance {
		s.Chance[name], _ = pcg.MarshalBinary() // it never fails
	}
	return s
}

func saveHost(h *host, now time.Time) savedHost {
	s := savedHost{
		Host: h.Host, ID: h.id, IP: h.ip, Up: h.up, Island: h.island, Members: []string{}, Heard: map[string]*report{}, Tasks: []savedTask{},
		PIDs: h.pids, Since: h.since, Zone: h.zone, Tells: h.tells, Returns: h.returns, Follows: h.follows, Starting: h.starting,
	}
	for other := range h.members {
		s.Members = append(s.Members, other.Name)
	}
	slices.Sort(s.Members)
	if h.known != nil {
		s.Known = map[int]savedPlace{}
		for id, at := range h.known {
			s.Known[id] = savedPlace{at.host.Name, at.tags, at.lock}
		}
	}
	for by, r := range h.heard {
		s.Heard[by.Name] = r
	}
	for _, t := range h.tasks {
		s.Tasks = append(s.Tasks, saveTask(t, now))
	}
	return s
}

// saveTask is a task as it is found after a restart: one that ran has not come to its end.
func saveTask(t *task, now time.Time) savedTask {
	s := savedTask{
		UPID: t.upid, Kind: t.kind, ID: t.id, User: t.user, Token: t.token, PID: t.pid, PStart: t.pstart, Start: t.start, End: t.end,
		Exit: t.exit, Log: t.log,
	}
	if t.running() {
		s.Exit, s.End = "unexpected status", now
	}
	return s
}

func savedVM(m *vm, now time.Time) savedGuest {
	s := savedGuest{
		ID: m.id, Host: m.host.Name, Conf: m.Conf, Pending: m.Pending, Forced: m.Forced, Made: m.Made, State: m.state, Since: m.since,
		PID: m.pid, Awake: m.awake, Agent: m.agent, Boots: m.boots, Execs: m.execs, Files: m.files, Firewall: m.fw,
	}
	for _, of := range m.Snaps {
		s.Snapshots = append(s.Snapshots, savedSnapshot{of.Name, of.Description, of.Parent, of.State, of.At, of.Conf})
	}
	if m.seed != nil {
		s.Seed = &[3][]byte{m.seed.user, m.seed.network, m.seed.meta}
	}
	if m.guest != nil && !m.awake {
		s.BootsUntil = m.guest.Wakes(now)
	}
	return s
}

func saveStorage(s *storage) savedStorage {
	out := savedStorage{Storage: s.Storage, Conf: s.conf, Volumes: []savedVolume{}}
	for _, place := range sorted(s.volumes) {
		for _, name := range sorted(s.volumes[place]) {
			v := s.volumes[place][name]
			out.Volumes = append(out.Volumes, savedVolume{
				place, name, v.content, v.format, v.size, v.vmid, v.at, v.parent, v.guest, v.notes, v.data,
			})
		}
	}
	return out
}

// saveHA is without moves that are under way: their tasks do not come to their end.
func saveHA(a *ha) savedHA {
	s := savedHA{
		Resources: a.resources, Groups: a.groups, Rules: a.rules, Ordinal: a.ordinal, Services: map[string]savedService{}, Stamp: a.stamp,
		Away: a.away, Next: a.next, Awake: a.p != nil, Wishes: append([]haWish{}, a.wishes...),
	}
	if a.master != nil {
		s.Master = a.master.Name
	}
	for sid, of := range a.services {
		to := savedService{Host: of.host.Name, State: of.state, Fails: of.fails}
		switch {
		case of.state == "migrate":
			to.State = "started"
		case of.goal != nil:
			to.Goal = of.goal.Name
		}
		s.Services[sid] = to
	}
	return s
}
