package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// differences are how an answer may differ from the recorded one, each with the reason.
var differences = map[string]string{
	"options":     "the recorded provider has no options, or its own; ours says OK and sets none, which every release takes for its flags",
	"template":    "the recorded shapes are others'; ours is a node that can be decoded, with processors and memory",
	"price":       "the recorded prices are others'; ours is above 0, always the same for a group, and higher for the bigger shape",
	"from memory": "the recorded provider is down with what is behind it; ours goes on answering what it knew, and a failed refresh would stop all scaling",
	"not yet":     "the cluster hangs, and so nothing is made; the recorded provider only answered late, and made it",
	"never joins": "the recorded provider lets a machine run that is no node; ours is Creating until it has joined",
	"going":       "how long a machine that was deleted is still listed depends on how long its guest takes to shut down",
	"vanished":    "a machine that somebody destroyed is told as failed until it is deleted, so that it is, and its node with it; the recorded provider forgets it",
	"on order":    "a target that is one too high is an order that has not begun, and an order is an instance",
	"other code":  "an error is an error to cluster-autoscaler; ours says that the state cannot be written",
}

func TestRecordedConversation(t *testing.T) {
	total := &tally{}
	for _, part := range []string{"a", "b", "c"} {
		t.Run("part "+part, func(t *testing.T) {
			one := replay(t, partOf(t, part))
			t.Logf("part %s: %s", part, one)
			total.add(one)
		})
	}
	t.Logf("in all: %s", total)
	for _, name := range slices.Sorted(maps.Keys(differences)) {
		t.Logf("%5d answers differ as %q: %s", total.allowed[name], name, differences[name])
		if total.allowed[name] == 0 && total.played > 0 {
			t.Errorf("no answer differs as %q", name)
		}
	}
}

// tally counts what was compared.
type tally struct {
	played, same int
	allowed      map[string]int // answers that differ, by difference
	machines     int            // times that the machines on the cluster were compared
}

func (n *tally) add(o *tally) {
	n.played, n.same, n.machines = n.played+o.played, n.same+o.same, n.machines+o.machines
	if n.allowed == nil {
		n.allowed = map[string]int{}
	}
	for name, count := range o.allowed {
		n.allowed[name] += count
	}
}

func (n *tally) String() string {
	differ := 0
	for _, count := range n.allowed {
		differ += count
	}
	return fmt.Sprintf("%d calls replayed and answers compared, %d the same and %d with a listed difference; %d times the cluster's machines compared", n.played, n.same, differ, n.machines)
}

// player plays a recording against our provider, as the cluster-autoscaler that was recorded.
type player struct {
	*world
	tally
	at      time.Duration // of the recording
	unspent time.Duration // time that has passed in the recording and not on the cluster

	groups map[string]string   // ours, by theirs
	order  map[string][]string // their machines by group, in the order in which they were made
	ours   map[string]string   // ids, by the names of their machines
	names  map[string]string   // names of our machines, by theirs
	prices map[string]float64  // by group

	running map[string]bool // their machines that exist
	deleted map[string]bool // and those whose deletion was asked for
	killed  map[string]bool
	stuck   map[string]bool
	owed    []recorded // what that provider did while ours could not

	fails  map[string]int // how many of a group's next machines fail
	sticks map[string]int // or never join
	full   bool           // they fail for lack of room
	away   bool           // no one answers at the cluster
	extra  string         // the id of the order that was put in beside
	resume func()         // ends a hang
}

// replay plays a recording and returns what it compared.
func replay(t *testing.T, all []recorded) *tally {
	w := begin(t, plan{hosts: 4, change: func(w *world) {
		w.provider.GPULabel = "lab/gpu"
		for i := range w.site.Pools {
			w.site.Pools[i].Placement.StorageReserve = 10 * pricing.GiB
			w.site.Pools[i].Placement.Maintenance = []string{"pve4"}
		}
	}})
	w.kube.hold()
	p := &player{
		world: w, tally: tally{allowed: map[string]int{}}, order: machinesOf(all),
		groups: map[string]string{"": ""}, ours: map[string]string{}, names: map[string]string{}, prices: map[string]float64{},
		running: map[string]bool{}, deleted: map[string]bool{}, killed: map[string]bool{}, stuck: map[string]bool{},
		fails: map[string]int{}, sticks: map[string]int{},
	}
	p.regroup()
	for i := range all {
		p.play(&all[i])
	}
	p.end()
	return &p.tally
}

func (p *player) regroup() {
	for _, name := range []string{"small", "big"} {
		p.groups[name] = p.group(name)
	}
}

func (p *player) play(r *recorded) {
	p.pass(r.at - p.at)
	p.at = r.at
	switch r.kind {
	case "rpc":
		p.played++
		differ, err := p.call(r.call)
		if err != nil {
			p.t.Fatalf("line %d: %s: %v\n%s", r.line, r.text, err, p.story())
		}
		if differ == "" {
			p.same++
			return
		}
		if differences[differ] == "" {
			p.t.Fatalf("line %d: %s: no such difference: %s", r.line, r.text, differ)
		}
		p.allowed[differ]++
	case "prov":
		p.follow(r)
	case "ctl":
		p.direct(r)
	}
}

// pass lets as much time pass as in the recording, in pieces that the fleet works in.
func (p *player) pass(d time.Duration) {
	p.unspent += max(0, d)
	if p.unspent < 2*time.Second {
		return
	}
	d, p.unspent = p.unspent, 0
	if p.resume != nil {
		p.sim.Advance(d) // the fleet waits for an answer
		return
	}
	p.run(d)
}

// follow lets what the recorded provider did become true: a machine joins when that one's did, and
// must be gone soon after that one's was.
func (p *player) follow(r *recorded) {
	id, did, is := strings.Cut(strings.TrimPrefix(r.text, "instance "), ": ")
	if !is {
		return
	}
	if p.resume != nil {
		p.owed = append(p.owed, *r)
		return
	}
	switch {
	case strings.HasPrefix(did, "running,"):
		p.running[id] = true
		p.kube.release(p.names[id])
		p.until(id+" runs", 5*time.Minute, func() bool { return p.states(p.groupOfTheirs(id))[p.ours[id]] == "Running" })
	case strings.HasPrefix(did, "created,"):
		p.running[id] = true
	case strings.HasPrefix(did, "gone,"):
		delete(p.running, id)
		p.until(id+" is gone", 5*time.Minute, func() bool {
			_, listed := p.states(p.groupOfTheirs(id))[p.ours[id]]
			return !listed && p.vmid(p.names[id]) == 0
		})
	}
}

// groupOfTheirs is our group for one of their machines.
func (p *player) groupOfTheirs(name string) string {
	group, _, _ := strings.Cut(name, "-")
	return p.groups[group]
}

// direct does on the cluster what the experimenter did to the recorded provider.
func (p *player) direct(r *recorded) {
	if note, is := strings.CutPrefix(r.text, "note="); is {
		if strings.HasPrefix(note, "Q12") { // it was killed
			p.start()
			p.round()
		}
		p.compareMachines(r)
		return
	}
	if id, is := strings.CutPrefix(r.text, "kill lab://"); is {
		p.destroy(p.vmid(p.names[id]))
		p.killed[id] = true
		delete(p.running, id)
		p.until("it is seen to be gone", time.Minute, func() bool { return p.states(p.groupOfTheirs(id))[p.ours[id]] == "Creating" })
		return
	}
	for _, word := range strings.Split(r.text, "&") {
		key, value, _ := strings.Cut(word, "=")
		what, of, _ := strings.Cut(key, ".")
		switch what {
		case "fail":
			p.fails[of] = number(p.t, value)
		case "code": // of failures, with the class that follows
		case "class":
			p.full = value == "1"
		case "stuck":
			p.sticks[of] = number(p.t, value)
		case "incerr":
			p.toggle(value != "", "full storage local-lvm")
		case "delerr":
			p.log.fill(nil)
			if value != "" {
				p.log.fill(errors.New("no space left on device"))
			}
		case "down":
			p.leave(value == "1")
		case "hang":
			p.hang(value != "0s")
		case "opts": // see differences
		case "min":
			p.pool(of).Min = number(p.t, value)
			p.reshape()
			p.start()
			p.round()
			p.regroup()
		case "target":
			p.putIn(of)
		default:
			p.t.Fatalf("line %d: what is %s?", r.line, word)
		}
	}
}

func number(t testing.TB, text string) (n int) {
	t.Helper()
	must.Get(fmt.Sscan(text, &n))(t)
	return n
}

// toggle puts a fault in, or ends all that there are.
func (p *player) toggle(on bool, fault string) {
	if on {
		p.inject(fault)
	} else {
		p.sim.Heal()
	}
	p.run(20 * time.Second) // lists of storages are some seconds old
}

// leave lets no one answer at the cluster, until they do again.
func (p *player) leave(away bool) {
	p.away = away
	if away {
		p.door.leave()
	} else {
		p.door.open()
	}
	p.run(3 * time.Second)
	if !away {
		p.until("it is well again", 5*time.Minute, func() bool { return p.server.Healthy(context.Background()) == nil && !p.lost() })
	}
}

// lost reports whether the fleet does not see the cluster.
func (p *player) lost() bool {
	state, err := p.fleet.List(context.Background())
	return err != nil || len(state.Hosts) == 0 || state.Hosts[0].Cordoned
}

// hang lets the cluster answer no call at all, not only the one that hung in the recording, until
// it does again; then what was held up is done.
func (p *player) hang(on bool) {
	if on {
		p.run(3 * time.Second)
		p.door.close()
		p.resume = p.work()
		return
	}
	p.door.open()
	p.resume()
	p.resume = nil
	p.run(3 * time.Second)
	owed := p.owed
	p.owed = nil
	for i := range owed {
		p.follow(&owed[i])
	}
}

// putIn makes a target one too high: with an order that cannot begin, for the host that it is for
// goes down.
func (p *player) putIn(group string) {
	pool := p.pool(group)
	pool.Placement.Maintenance = nil
	p.start()
	p.round()
	before := p.ids(p.groups[group])
	id := nodescaler.OrderID(p.sim.Now(), 999)
	must.Do(p.t, p.fleet.Create(context.Background(), loop.Order{ID: id, At: p.sim.Now(), Action: nodescaler.Action{
		Kind: nodescaler.Buy, Order: id, Pool: group, Shape: &pool.Shapes[0], Host: "pve4",
	}}))
	p.inject("host pve4 down")
	p.sim.Advance(30 * time.Second) // until the others know
	p.run(3 * time.Second)
	for _, one := range p.ids(p.groups[group]) {
		if !slices.Contains(before, one) {
			p.extra = one
		}
	}
	if p.extra == "" {
		p.t.Fatalf("the order is not listed\n%s", p.story())
	}
}

// compareMachines holds the machines that are on the cluster to those of the recorded provider.
func (p *player) compareMachines(r *recorded) {
	if p.resume != nil || p.away {
		return
	}
	theirs := []string{}
	for id := range p.running {
		theirs = append(theirs, p.names[id])
	}
	slices.Sort(theirs)
	p.machines++
	if diff := cmp.Diff(theirs, p.vmNames()); diff != "" {
		p.t.Fatalf("line %d: %s: machines: -recorded +ours:\n%s\n%s", r.line, r.text, diff, p.story())
	}
}

// end lets cluster-autoscaler delete what the provider reported as failed, as it does in its next
// loop, and sees that the cluster has the right machines, and nothing else.
func (p *player) end() {
	for _, group := range []string{"small", "big"} {
		for _, i := range p.instances(p.groups[group]) {
			if i.Code != "" {
				if err := p.delete(p.groups[group], placeholder(i.ID)); err != nil {
					p.t.Error(err)
				}
			}
		}
	}
	if p.extra != "" {
		p.takeOut()
	}
	p.run(5 * time.Minute)
	p.compareMachines(&recorded{text: "the end"})
	want := 0
	for _, group := range []string{"small", "big"} {
		for id := range p.running {
			if strings.HasPrefix(id, group) {
				want++
			}
		}
		got := p.instances(p.groups[group])
		if p.target(p.groups[group]) != want || len(got) != want || !p.all(p.groups[group], "Running", want) {
			p.t.Errorf("at the end, %s has target %d and instances %v, want %d", group, p.target(p.groups[group]), got, want)
		}
		want = 0
	}
	nodes := []string{}
	for _, n := range p.kube.joined() {
		nodes = append(nodes, n.Name)
	}
	slices.Sort(nodes)
	if diff := cmp.Diff(p.vmNames(), nodes); diff != "" || len(p.discs()) != 0 {
		p.t.Errorf("at the end, the discs %v are left, and machines and nodes differ:\n%s", p.discs(), diff)
	}
}

// takeOut takes back the order that was put in and that no one has taken back: its group had no
// other machine, and there the recorded cluster-autoscaler never did.
func (p *player) takeOut() {
	for _, group := range []string{"small", "big"} {
		if _, there := p.states(p.groups[group])[p.extra]; there {
			if err := p.decrease(p.groups[group], -1); err != nil {
				p.t.Error(err)
			}
		}
	}
}

// call makes a call and compares its answer: how it differs, if it does in a way that is listed.
func (p *player) call(e *exchange) (differ string, err error) {
	ctx, group := context.Background(), p.groups[e.group]
	switch e.method {
	case "NodeGroups":
		return p.compareGroups(e)
	case "NodeGroupForNode":
		return p.compareGroupOf(e)
	case "NodeGroupTargetSize":
		answer, err := p.NodeGroupTargetSize(ctx, &externalgrpc.NodeGroupTargetSizeRequest{Id: group})
		return p.compareTarget(e, int(answer.GetTargetSize()), err)
	case "NodeGroupNodes":
		answer, err := p.NodeGroupNodes(ctx, &externalgrpc.NodeGroupNodesRequest{Id: group})
		if err != nil {
			return "", err
		}
		return p.compareInstances(e, read(answer))
	case "NodeGroupTemplateNodeInfo":
		if cpu := p.template(group).Status.Allocatable.Cpu(); cpu.IsZero() {
			return "", errors.New("the template has no processors")
		}
		return "template", nil
	case "NodeGroupGetOptions":
		if got := p.options(group, clients["1.35 to 1.37"]); got != nil {
			return "", fmt.Errorf("answered %v", got)
		}
		return "options", nil
	case "PricingNodePrice", "PricingPodPrice":
		return p.comparePrice(e)
	case "GPULabel":
		answer, err := p.GPULabel(ctx, &externalgrpc.GPULabelRequest{})
		return same(answer.GetLabel() == e.label, answer, err)
	case "GetAvailableGPUTypes":
		answer, err := p.GetAvailableGPUTypes(ctx, &externalgrpc.GetAvailableGPUTypesRequest{})
		return same(len(answer.GetGpuTypes()) == 0, answer, err)
	case "Refresh":
		err := p.refresh()
		if e.refused != "" && p.away && err == nil {
			return "from memory", nil
		}
		return same(e.refused == "", nil, err)
	case "Cleanup":
		_, err := p.Cleanup(ctx, &externalgrpc.CleanupRequest{})
		return "", err
	}
	return p.change(e)
}

func same(is bool, answer any, err error) (string, error) {
	if err == nil && !is {
		err = fmt.Errorf("answered %v", answer)
	}
	return "", err
}

// change makes a call that changes something.
func (p *player) change(e *exchange) (string, error) {
	group := p.groups[e.group]
	switch e.method {
	case "NodeGroupIncreaseSize":
		before := p.ids(group)
		err := p.increase(group, e.delta)
		if e.refused != "" {
			return same(status.Code(err).String() == e.refused, "another refusal", unless(err))
		}
		if err != nil {
			return "", err
		}
		return "", p.made(e, before)
	case "NodeGroupDecreaseTargetSize":
		return "", p.decrease(group, e.delta)
	case "NodeGroupDeleteNodes":
		var nodes []*externalgrpc.ExternalGrpcNode
		for _, name := range e.nodes {
			nodes = append(nodes, p.node(name, ""))
		}
		err := p.delete(group, nodes...)
		switch {
		case e.refused != "" && status.Code(err) == codes.Unavailable:
			return "other code", nil
		case e.refused != "" || err != nil:
			return "", fmt.Errorf("answered %w", err)
		}
		for _, name := range e.nodes {
			p.deleted[strings.TrimPrefix(name, "lab://")] = true
		}
		return "", nil
	}
	return "", errors.New("no such call")
}

// unless turns the lack of an error into one, and any error into none.
func unless(err error) error {
	if err == nil {
		return errors.New("it was not refused")
	}
	return nil
}

// made takes over what an increase made: the machines are those that the recording shows next.
func (p *player) made(e *exchange, before []string) error {
	state, err := p.fleet.List(context.Background())
	if err != nil {
		return err
	}
	var made []nodescaler.Machine
	for _, m := range state.Machines { // in the order of their orders
		if m.Pool == e.group && !slices.Contains(before, m.ProviderID) {
			made = append(made, m)
		}
	}
	if len(made) != int(e.delta) {
		return fmt.Errorf("%d machines were ordered", len(made))
	}
	for i, m := range made {
		theirs := p.order[e.group][0]
		p.order[e.group] = p.order[e.group][1:]
		p.ours[theirs], p.names[theirs] = m.ProviderID, m.Name
		switch {
		case i == 0 && p.fails[e.group] > 0:
			p.fails[e.group]--
			p.doom(e.group, m)
		case i == 0 && p.sticks[e.group] > 0:
			p.sticks[e.group]--
			p.stuck[theirs] = true
		}
	}
	return nil
}

// doom lets a machine fail, and waits until that is reported: the recorded provider does so at
// once.
func (p *player) doom(group string, m nodescaler.Machine) {
	why := ""
	if p.full {
		why = ` text="clone failed: no space left on device"`
	}
	p.inject("fail clone on=" + m.Host + why)
	p.until(m.Name+" has failed", 5*time.Minute, func() bool {
		return slices.ContainsFunc(p.instances(p.groups[group]), func(i instance) bool { return i.ID == m.ProviderID && i.Code != "" })
	})
	p.sim.Heal()
}

// node is a node as the recorded cluster-autoscaler asks for it, with our ids. A template of its
// own has the id of the node that it was taken from, where the recording shows that it had one.
func (p *player) node(name, group string) *externalgrpc.ExternalGrpcNode {
	if id, fake := strings.CutPrefix(name, "lab://"); fake {
		return placeholder(p.ours[id])
	}
	if id := p.ours[name]; id != "" {
		return &externalgrpc.ExternalGrpcNode{Name: p.names[name], ProviderID: id, Labels: map[string]string{"plimsoll.dev/pool": p.groupName(name)}}
	}
	if rest, is := strings.CutPrefix(name, "template-node-for-"); is {
		of, _, _ := strings.Cut(rest, "-")
		n := &externalgrpc.ExternalGrpcNode{Name: name, Labels: p.template(p.groups[of]).Labels}
		for id, state := range p.states(p.groups[of]) {
			if group != "" && state == "Running" {
				n.ProviderID = id
			}
		}
		return n
	}
	return &externalgrpc.ExternalGrpcNode{Name: name, ProviderID: "rke2://" + name}
}

func (p *player) groupName(theirs string) string {
	group, _, _ := strings.Cut(theirs, "-")
	return group
}

func (p *player) compareGroups(e *exchange) (string, error) {
	var got []string
	for _, g := range p.world.groups() {
		name, _, _ := strings.Cut(g.Id, ".")
		got = append(got, name)
	}
	return same(slices.Equal(got, e.groups), got, nil)
}

func (p *player) compareGroupOf(e *exchange) (string, error) {
	name := e.nodes[0]
	answer, err := p.NodeGroupForNode(context.Background(), &externalgrpc.NodeGroupForNodeRequest{Node: p.node(name, e.ofNode)})
	if err != nil {
		return "", err
	}
	got := answer.GetNodeGroup().GetId()
	theirs := strings.TrimPrefix(name, "lab://")
	switch {
	case e.refused != "" && p.away:
		if p.ours[theirs] != "" && got != p.groupOfTheirs(theirs) {
			return "", fmt.Errorf("answered %q", got)
		}
		return "from memory", nil
	case got == p.groups[e.ofNode]:
		return "", nil
	case p.killed[theirs] && e.ofNode == "":
		return "vanished", nil
	case p.deleted[theirs] && (got == "" || e.ofNode == ""):
		return "going", nil
	}
	return "", fmt.Errorf("answered %q", got)
}

func (p *player) compareTarget(e *exchange, got int, err error) (string, error) {
	killed := 0
	for id := range p.killed {
		if strings.HasPrefix(id, e.group) {
			killed++
		}
	}
	if killed > 0 && err == nil && got == e.target+killed {
		return "vanished", nil
	}
	return same(got == e.target, got, err)
}

// theirCodes are the codes that the recorded provider gave to the failures that ours has other
// words for.
var theirCodes = map[string]string{"PVE-NO-STORAGE": "NoRoom", "PVE-CLONE-FAILED": "MachineFailed"}

// compareInstances compares a list of instances, one after the other.
func (p *player) compareInstances(e *exchange, got []instance) (differ string, err error) {
	ours := map[string]instance{}
	for _, i := range got {
		ours[i.ID] = i
	}
	theirs := map[string]instance{}
	for _, i := range e.instances {
		theirs[strings.TrimPrefix(i.ID, "lab://")] = i
	}
	for name, id := range p.ours {
		if p.groupName(name) != e.group {
			continue
		}
		one, err := p.compareInstance(name, theirs[name], ours[id])
		if err != nil {
			return "", err
		}
		if one != "" {
			differ = one
		}
		delete(ours, id)
	}
	if _, there := ours[p.extra]; there {
		delete(ours, p.extra)
		differ = "on order"
	}
	if len(ours) > 0 {
		err = fmt.Errorf("answered %v besides", ours)
	}
	return differ, err
}

// compareInstance compares an instance. Of one that goes, what was wrong with it does not count any
// more.
func (p *player) compareInstance(name string, theirs, ours instance) (string, error) {
	going := func(i instance) bool { return i.State == "" || i.State == "Deleting" }
	switch {
	case theirs.State == ours.State && (going(ours) || theirCodes[theirs.Code] == ours.Code && theirs.Class == ours.Class):
		return "", nil
	case p.deleted[name] && going(theirs) && going(ours):
		return "going", nil
	case theirs.State == "Running" && ours.State == "Creating" && ours.Code == "" && p.stuck[name]:
		return "never joins", nil
	case theirs.State == "Running" && ours.State == "Creating" && ours.Code == "" && p.resume != nil:
		return "not yet", nil
	case p.killed[name] && theirs.State == "" && ours.State == "Creating" && ours.Code != "":
		return "vanished", nil
	}
	return "", fmt.Errorf("%s is %+v", name, ours)
}

func (p *player) comparePrice(e *exchange) (string, error) {
	from, to := hour(p.world)
	if e.method == "PricingPodPrice" {
		pod, err := podOf("1500m", "256Mi").Marshal()
		if err != nil {
			return "", err
		}
		answer, err := p.PricingPodPrice(context.Background(), &externalgrpc.PricingPodPriceRequest{PodBytes: pod, StartTimestamp: from, EndTimestamp: to})
		return p.samePrice("pod", answer.GetPrice(), err)
	}
	n := p.node(e.nodes[0], "")
	answer, err := p.PricingNodePrice(context.Background(), &externalgrpc.PricingNodePriceRequest{Node: n, StartTimestamp: from, EndTimestamp: to})
	group := n.Labels["plimsoll.dev/pool"]
	differ, err := p.samePrice(group, answer.GetPrice(), err)
	if small, big := p.prices["small"], p.prices["big"]; err == nil && small > 0 && big > 0 && small >= big {
		err = fmt.Errorf("a small node costs %g, a big one %g", small, big)
	}
	return differ, err
}

func (p *player) samePrice(of string, got float64, err error) (string, error) {
	if was := p.prices[of]; err == nil && (got <= 0 || was > 0 && was != got) {
		return "", fmt.Errorf("%s costs %g, and cost %g", of, got, was)
	}
	p.prices[of] = got
	return "price", err
}
