package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/doctor"
	"github.com/plimsoll/plimsoll/proxmox/firstboot"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// tester is what tests and laws have in common.
type tester interface {
	must.Test
	Context() context.Context
	Cleanup(func())
}

// furnished is an emulated cluster with a template and storages and nothing that is Plimsoll's: no
// pool, no user, no role. Its templates are on another network than machines are put on.
func furnished(t tester, release string, changes ...func(*pvesim.Config)) *pvesim.Cluster {
	cfg := pvesim.Config{
		Name: "home", Release: release,
		Storages: []pvesim.Storage{
			{Name: "ceph", Type: "rbd", Shared: true, Content: []string{"images"}, Total: 4 << 40},
			{Name: "local-lvm", Type: "lvmthin", Content: []string{"images"}, Total: 1 << 40},
			{Name: "discs", Type: "nfs", Shared: true, Content: []string{"iso"}, Total: 64 << 30},
		},
		VMs: []pvesim.VM{{
			ID: 9000, Host: "pve1", Template: true, Storage: "ceph", Disk: 10 << 30,
			Config: map[string]string{"name": "golden", "ide2": "ceph:cloudinit", "agent": "1", "cpu": "x86-64-v2-AES"},
		}},
		Times: timing.Machine{Clone: timing.Range{Min: 2e9, Max: 4e9}, Boot: timing.Range{Min: 5e9, Max: 9e9}, Delete: timing.Range{Min: 1e9, Max: 2e9}},
	}
	for _, name := range []string{"pve1", "pve2", "pve3"} {
		cfg.Hosts = append(cfg.Hosts, pvesim.Host{Name: name, CPUs: 16, Memory: 64 << 30, Bridges: []string{"vmbr0", "vmbr1"}})
	}
	for _, change := range changes {
		change(&cfg)
	}
	c := must.Get(pvesim.New(cfg))(t)
	t.Cleanup(c.Close)
	return c
}

// household is a site for it that makes use of everything that rights are needed for.
func household() *settings.Site {
	return &settings.Site{
		Owner: "home", Endpoints: []string{"https://pve1:8006"}, TokenFile: "token",
		Pools: []settings.Pool{{
			Name: "web", Shapes: []pricing.Shape{{Name: "small", CPU: 2 * pricing.Core, Memory: 4 * pricing.GiB, Disk: 20 * pricing.GiB}}, Max: 4,
			Template: placement.Template{VMID: 9000}, Bridge: "vmbr1", PVEPool: "k8s", VMIDs: placement.VMIDs{First: 5000, Last: 5019},
			Tags: []string{"web"}, Region: "home", JoinTimeout: nodescaler.Duration(2 * time.Minute), MaxFailures: 9,
			Guest: settings.Guest{Agent: true}, ISO: settings.ISO{Storage: "discs"},
			Join: firstboot.Profile{
				Kind: firstboot.K3s, Servers: []string{"10.0.0.2"}, Token: "K10join",
				ProviderID: firstboot.ProviderID{Scheme: firstboot.SchemeK3s},
			},
		}},
	}
}

// golden is what is in the template of the furnished cluster.
var golden = map[int]pveapi.Parts{9000: {Storages: []string{"ceph"}, Networks: []pveapi.Bridge{{Name: "vmbr0"}}}}

// setUp runs all commands of a setup, and returns the token that they make.
func setUp(t tester, h *pvesim.Console, site *settings.Site, release doctor.Release, skip func(command string) bool) string {
	t.Helper()
	return setUpFor(t, h, site, doctor.Needs(site, release, golden, nil), skip)
}

// setUpFor is a setup of what is needed.
func setUpFor(t tester, h *pvesim.Console, site *settings.Site, needs []doctor.Need, skip func(command string) bool) string {
	t.Helper()
	who := pveapi.Account{User: "plimsoll@pve", Token: "main"}
	for _, block := range doctor.Setup(site, needs, who) {
		for _, c := range block.Commands {
			if skip != nil && skip(c) {
				continue
			}
			if err := h.Run(c); err != nil {
				t.Fatal(c, err)
			}
		}
	}
	return h.Tokens[who.String()]
}

func connect(t must.Test, c *pvesim.Cluster, token string) *pveapi.Client {
	client := must.Get(pveapi.Connect(pveapi.Connection{
		Endpoints: []string{"https://pve1:8006"}, Token: func() (string, error) { return token, nil },
		Transport: c.Transport(), Now: c.Now, Wait: func(_ context.Context, d time.Duration) error { c.Advance(d); return nil },
	}))(t)
	return client
}

// lives makes two machines: one that joins, and one that never does and is asked why. Then both are
// returned. It returns what kept it from that, if anything did.
func lives(t testing.TB, c *pvesim.Cluster, site *settings.Site, token string) error {
	nodes := &joined{}
	c.OnBoot(nodes.boot)
	fleet, err := pve.NewFleet(pve.FleetConfig{
		Client: connect(t, c, token), Owner: site.Owner, Cluster: "test", Pools: site.Pools, Intents: &intents.Memory{}, Nodes: nodes.list,
		Now: c.Now, Rand: rand.New(rand.NewPCG(1, 2)), Parallel: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	l := &life{ctx: ctx, fleet: fleet, c: c, root: connect(t, c, c.Token("root@pam", "eyes", false))}
	shape := site.Pools[0].Shapes[0]
	for _, id := range []string{"1", deafOrder} {
		order := loop.Order{ID: id, At: c.Now(), Action: nodescaler.Action{Kind: nodescaler.Buy, Order: id, Pool: "web", Shape: &shape}}
		if err := l.until("order "+id, func() error { return fleet.Create(ctx, order) }); err != nil {
			return err
		}
	}
	err = l.until("both are made", func() error {
		return errors.Join(l.is("web-1", nodescaler.Joined, ""), l.is("web-"+deafOrder, nodescaler.Failed, "agent: interfaces"))
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"web-1", "web-" + deafOrder} {
		if err := fleet.Delete(ctx, name); err != nil {
			return err
		}
	}
	return l.until("both are gone", func() error {
		state, err := fleet.List(ctx)
		if err == nil && len(state.Machines) > 0 {
			err = fmt.Errorf("still there: %+v", state.Machines)
		}
		return errors.Join(err, l.noDiscs())
	})
}

// deafOrder is the order whose machine never becomes a node.
const deafOrder = "deaf"

// life is a fleet at work.
type life struct {
	ctx   context.Context
	fleet *pve.Fleet
	c     *pvesim.Cluster
	root  *pveapi.Client
}

// until lets time pass until something holds, at most a quarter of an hour.
func (l *life) until(what string, holds func() error) error {
	var err, looked error
	for end := l.c.Now().Add(15 * time.Minute); l.c.Now().Before(end); l.c.Advance(3 * time.Second) {
		looked = l.fleet.Tick(l.ctx)
		if err = holds(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", what, errors.Join(err, looked))
}

// noDiscs wants all first-boot discs to be removed: they hold the join token.
func (l *life) noDiscs() error {
	discs, err := l.root.Volumes(l.ctx, "pve1", "discs", "iso", 0)
	if err == nil && len(discs) > 0 {
		err = fmt.Errorf("discs are left: %+v", discs)
	}
	return err
}

// is wants a machine to be in a phase, and its problem to have a text in it.
func (l *life) is(name string, phase nodescaler.Phase, problem string) error {
	state, err := l.fleet.List(l.ctx)
	if err != nil {
		return err
	}
	for _, m := range state.Machines {
		if m.Name == name && m.Phase == phase && strings.Contains(m.Problem, problem) {
			return nil
		}
		if m.Name == name {
			return fmt.Errorf("%s is %s: %s", name, m.Phase, m.Problem)
		}
	}
	return fmt.Errorf("%s is not there", name)
}

// joined are the nodes of a cluster that machines join when they have booted.
type joined struct {
	mu  sync.Mutex
	all []pve.Node
}

func (j *joined) boot(b pvesim.Boot) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !strings.Contains(string(b.UserData), "K10join") {
		return // it was not given how
	}
	if b.Name != "web-"+deafOrder {
		j.all = append(j.all, pve.Node{Name: b.Name, ProviderID: "k3s://" + b.Name, SystemUUID: b.UUID, Ready: true, JoinedAt: b.At})
	}
}

func (j *joined) list(context.Context) ([]pve.Node, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.all), nil
}

func TestSetupGivesWhatAMachinesWholeLifeTakes(t *testing.T) {
	for release, version := range map[doctor.Release]string{doctor.Release8: "8.4.5", doctor.Release9: "9.2.11"} {
		t.Run(version, func(t *testing.T) {
			c := furnished(t, version)
			h := c.Console()
			site := household()
			token := setUp(t, h, site, release, nil)
			if err := lives(t, c, site, token); err != nil {
				t.Error(err)
			}
			noneForbidden(t, c)
			setUp(t, h, site, release, nil) // again does no harm
			if err := lives(t, c, site, token); err != nil {
				t.Error("after a second setup:", err)
			}
		})
	}
}

// noneForbidden wants no call to have been refused.
func noneForbidden(t testing.TB, c *pvesim.Cluster) {
	t.Helper()
	for _, call := range c.Calls() {
		if call.Status == http.StatusForbidden {
			t.Errorf("%s %s: %s", call.Method, call.Path, call.Reason)
		}
	}
}

// lacking are what a token lacks of what is needed, as "PATH PRIVILEGE".
func lacking(t tester, c *pvesim.Cluster, needs []doctor.Need, token string) []string {
	have := must.Get(connect(t, c, token).Access().Permissions(t.Context()))(t)
	var all []string
	for _, n := range doctor.Missing(needs, have) {
		for _, p := range n.Privileges {
			all = append(all, n.Path+" "+p)
		}
	}
	return all
}

func TestEveryPrivilegeOfASetupIsNeeded(t *testing.T) {
	site := household()
	needs := doctor.Needs(site, doctor.Release9, golden, nil)
	roles := map[string][]string{}
	for _, n := range needs {
		roles[n.Role] = append(roles[n.Role], n.Privileges...)
	}
	for role, privileges := range roles {
		slices.Sort(privileges)
		privileges = slices.Compact(privileges)
		for _, privilege := range privileges {
			t.Run(role+" without "+privilege, func(t *testing.T) {
				c := furnished(t, "9.2.11")
				h := c.Console()
				token := setUp(t, h, site, doctor.Release9, nil)
				left := slices.DeleteFunc(slices.Clone(privileges), func(p string) bool { return p == privilege })
				c.AddRole(role, left...)
				named := lacking(t, c, needs, token)
				if !slices.ContainsFunc(named, func(s string) bool { return strings.HasSuffix(s, " "+privilege) }) {
					t.Errorf("it is not missed, but %q", named)
				}
				err := lives(t, c, site, token)
				if err == nil {
					t.Error("it is not needed: a machine's life goes on without it")
				}
				t.Log(err)
			})
		}
	}
}

// TestEveryGrantOfASetupIsNeeded takes each line that gives a role on a path away, from the user
// and from the token.
func TestEveryGrantOfASetupIsNeeded(t *testing.T) {
	site := household()
	needs := doctor.Needs(site, doctor.Release9, golden, nil)
	var grants []string
	for _, b := range doctor.Setup(site, needs, pveapi.Account{User: "plimsoll@pve", Token: "main"}) {
		for _, c := range b.Commands {
			if strings.HasPrefix(c, "pveum acl modify") {
				grants = append(grants, c)
			}
		}
	}
	for _, line := range grants {
		for _, whom := range []string{"--users plimsoll@pve ", "--tokens 'plimsoll@pve!main' "} {
			short := strings.Replace(line, whom, "", 1)
			if short == line {
				t.Fatalf("%s gives nothing to %s", line, whom)
			}
			t.Run(short, func(t *testing.T) {
				c := furnished(t, "9.2.11")
				h := c.Console()
				token := setUp(t, h, site, doctor.Release9, func(command string) bool { return command == line })
				must.Do(t, h.Run(short))
				if len(lacking(t, c, needs, token)) == 0 {
					t.Error("it is not missed")
				}
				if lives(t, c, site, token) == nil {
					t.Error("it is not needed: a machine's life goes on without it")
				}
			})
		}
	}
}
