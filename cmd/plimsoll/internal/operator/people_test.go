package operator

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// happenings are what a life may meet, by kind.
var happenings = map[string]func(*life, *rand.Rand){
	"load":           func(l *life, r *rand.Rand) { one(r, l.services).cores = r.Float64() * 3 },
	"scaled by hand": func(l *life, r *rand.Rand) { one(r, l.services).replicas = 1 + r.IntN(10) },

	"API stale":         func(l *life, r *rand.Rand) { l.stale = r.IntN(8) },
	"API silent":        func(l *life, r *rand.Rand) { l.blind = r.IntN(2) == 0 },
	"API writes fail":   func(l *life, r *rand.Rand) { l.refuses = r.IntN(2) == 0 },
	"evictions refused": func(l *life, r *rand.Rand) { l.stuck = r.IntN(2) == 0 },
	"node deleted": func(l *life, r *rand.Rand) { // its kubelet makes it anew
		if len(l.nodes) > 0 {
			n := one(r, l.nodes)
			if l.api != nil {
				l.api.lose("nodes", n.Name)
			}
			n.Draining, n.Cordoned, n.ready = false, false, l.sim.Now().Add(30*time.Second)
			for _, p := range l.pods {
				if p.node == n.Name {
					p.node = "gone"
				}
			}
		}
	},
	"node cordoned": func(l *life, r *rand.Rand) {
		if len(l.nodes) > 0 {
			one(r, l.nodes).Cordoned = true
		}
	},

	"process restarts": func(l *life, r *rand.Rand) {
		if l.api != nil {
			p := one(r, l.processes)
			p.server = nil
			p.seat.restart(r.IntN(2) == 0)
			return
		}
		l.leads.server = nil
		l.down = l.sim.Now().Add(time.Duration(r.IntN(180)) * time.Second)
		if err := l.start(); err != nil {
			l.fault("it does not start again: %v", err)
		}
	},
	"lead passes": func(l *life, r *rand.Rand) { l.leads.left, l.leads.drops = 1+r.IntN(40), r.IntN(2) == 0 },
	"clock jumps": func(l *life, r *rand.Rand) {
		l.ahead += time.Duration(r.IntN(7200)-1800) * time.Second
		if l.api != nil {
			for _, s := range l.api.seats {
				s.client.Ahead(l.ahead)
			}
		}
		for _, orders := range l.boughtFor { // what was ordered later than now was ordered now
			for i := range orders {
				if orders[i].After(l.now()) {
					orders[i] = l.now()
				}
			}
		}
	},

	"pool paused": func(l *life, r *rand.Rand) {
		l.pools["aa"].Annotations = map[string]string{v1alpha1.AnnotationPaused: one(r, []string{"true", "up", "down", "false"})}
	},
	"pool observed": func(l *life, r *rand.Rand) {
		l.pools["aa"].Spec.Mode = one(r, []v1alpha1.VMPoolMode{v1alpha1.ModePoolActive, v1alpha1.ModePoolRecommend})
	},
	"pool's maximum": func(l *life, r *rand.Rand) {
		p := l.pools["aa"]
		p.Spec.Max = 2 + int32(r.IntN(8))
		p.Spec.Min = int32(r.IntN(3))
		p.Generation++
		l.most = max(l.most, int(p.Spec.Max))
	},
	"pool's machines drift": func(l *life, r *rand.Rand) {
		p := l.pools["aa"]
		p.Spec.Disruption = &v1alpha1.Disruption{Drift: "Replace", Budgets: []v1alpha1.NodeBudget{{Nodes: one(r, []v1alpha1.NodeCount{"1", "50%"})}}}
		p.Spec.Guest.CPUType = one(r, []string{"host", "x86-64-v2-AES", ""})
		p.Generation++
	},
	"pool consolidates": func(l *life, r *rand.Rand) {
		p := l.pools["aa"]
		p.Spec.Disruption = &v1alpha1.Disruption{
			Consolidation: &v1alpha1.Consolidation{Policy: one(r, []string{"WhenEmpty", "WhenEmptyOrUnderutilized"}), After: one(r, []v1alpha1.Duration{"", "2m"})},
			Budgets:       []v1alpha1.NodeBudget{{Nodes: one(r, []v1alpha1.NodeCount{"1", "50%"})}},
			Repair:        one(r, []*v1alpha1.Repair{nil, {Conditions: []v1alpha1.NodeAilment{{Type: nodescaler.Ready, Status: "Unknown", For: "3m"}, {Type: nodescaler.Ready, Status: "False", For: "3m"}}, Reboot: one(r, []*v1alpha1.Reboot{nil, {Within: "6m"}})}}),
		}
		p.Generation++
	},
	"workload paused": func(l *life, r *rand.Rand) {
		a := l.autoscalers[one(r, l.services).name]
		a.Annotations = one(r, []map[string]string{nil, {v1alpha1.AnnotationPaused: "true"}, {v1alpha1.AnnotationPausedReplicas: fmt.Sprint(1 + r.IntN(9))}})
	},
	"workload's mode": func(l *life, r *rand.Rand) {
		l.autoscalers[one(r, l.services).name].Spec.Mode = one(r, []v1alpha1.Mode{v1alpha1.ModeActive, v1alpha1.ModeRecommend, v1alpha1.ModePaused})
	},

	"Proxmox fails": func(l *life, r *rand.Rand) {
		text := one(r, []string{
			"no quorum for=%[2]dm", "host pve%d maintenance for=%dm", "freeze resources on=pve%d for=%dm", "fail clone p=0.5 for=%[2]dm",
			"kill task clone times=%[2]d", "warn clone times=%d", "slow clone by=3m times=%d", "fail boot times=%d", "slow boot by=4m times=%d", "steal id nth=%d",
			"full storage local-lvm on=pve%d for=%dm", "storage-lock local-lvm on=pve%d for=%dm", "lose answer POST …/clone times=%d",
			"lose answer POST …/status/start times=%d", "lose answer DELETE /nodes/*/qemu/* times=%d", "answer 500 GET /cluster/resources p=0.5 for=%[2]dm",
			"answer 595 POST …/status/start times=%d", "unauthorized p=0.3 for=%[2]dm", "fail shutdown times=%d", "revoke VM.Audit for=%[2]dm", "slow shutdown by=10m times=%d",
		})
		n := []any{1 + r.IntN(3), 1 + r.IntN(8)}
		l.inject(fmt.Sprintf(text, n...))
	},
	"machine stopped": func(l *life, r *rand.Rand) {
		l.meddles(r, func(ctx context.Context, v pvesim.VMState) error {
			l.stopped[v.ID] = true
			_, err := l.person.VM(v.Host, v.ID).Stop(ctx, false)
			return err
		})
	},
	"machine destroyed": func(l *life, r *rand.Rand) {
		l.meddles(r, func(ctx context.Context, v pvesim.VMState) error {
			if _, err := l.person.VM(v.Host, v.ID).Stop(ctx, true); err != nil {
				return err
			}
			l.advance(5 * time.Second)
			_, err := l.person.VM(v.Host, v.ID).Destroy(ctx, true)
			return err
		})
	},
	"odd pod": func(l *life, r *rand.Rand) { l.oddPod(one(r, oddities)) },
	"host away": func(l *life, r *rand.Rand) {
		l.inject(fmt.Sprintf("host pve%d down for=%dm", 1+r.IntN(3), 1+r.IntN(12)))
	},
	"image changed": func(l *life, r *rand.Rand) {
		one(r, l.services).version++
	},
	"machine renamed": func(l *life, r *rand.Rand) {
		l.meddles(r, func(ctx context.Context, v pvesim.VMState) error {
			return l.takes(ctx, v, "name", "mine-now")
		})
	},
	"machine protected": func(l *life, r *rand.Rand) {
		l.meddles(r, func(ctx context.Context, v pvesim.VMState) error {
			return l.takes(ctx, v, "protection", "1")
		})
	},
	"machine's notes": func(l *life, r *rand.Rand) { // added to, or replaced
		l.meddles(r, func(ctx context.Context, v pvesim.VMState) error {
			if r.IntN(2) == 0 {
				return l.person.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"description": v.Config["description"] + "\n\nwatched by ops"}, nil, "")
			}
			return l.takes(ctx, v, "description", "precious")
		})
	},
	"machine's tags": func(l *life, r *rand.Rand) { // one is added, or ours is removed
		l.meddles(r, func(ctx context.Context, v pvesim.VMState) error {
			if r.IntN(2) == 0 {
				return l.person.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{"tags": v.Config["tags"] + ";watched"}, nil, "")
			}
			return l.takes(ctx, v, "tags", "watched")
		})
	},
	"machine migrated": func(l *life, r *rand.Rand) {
		l.meddles(r, func(_ context.Context, v pvesim.VMState) error {
			to := fmt.Sprintf("pve%d", 1+r.IntN(3))
			return l.asks("POST", fmt.Sprintf("/nodes/%s/qemu/%d/migrate", v.Host, v.ID), url.Values{"target": {to}, "online": {"1"}, "with-local-disks": {"1"}})
		})
	},
	"machine snapshotted": func(l *life, r *rand.Rand) {
		l.meddles(r, func(_ context.Context, v pvesim.VMState) error {
			return l.asks("POST", fmt.Sprintf("/nodes/%s/qemu/%d/snapshot", v.Host, v.ID), url.Values{"snapname": {fmt.Sprintf("s%d", r.IntN(3))}})
		})
	},
	"machine restored": func(l *life, r *rand.Rand) { // as another VM
		l.meddles(r, func(_ context.Context, v pvesim.VMState) error {
			id := 1050 + r.IntN(50)
			if slices.ContainsFunc(l.sim.Inventory().VMs, func(v pvesim.VMState) bool { return v.ID == id }) {
				return errors.New("its VMID is taken")
			}
			l.theirs[id], l.named[v.Config["name"]] = true, true
			return l.asks("POST", fmt.Sprintf("/nodes/%s/qemu/%d/clone", v.Host, v.ID), url.Values{
				"newid": {fmt.Sprint(id)}, "name": {v.Config["name"]}, "full": {"1"}, "pool": {"plimsoll"},
			})
		})
	},
	"machine made": func(l *life, r *rand.Rand) { // in our range and resource pool
		id := 1000 + r.IntN(100)
		if slices.ContainsFunc(l.sim.Inventory().VMs, func(v pvesim.VMState) bool { return v.ID == id }) {
			return
		}
		err := l.asks("POST", fmt.Sprintf("/nodes/pve%d/qemu", 1+r.IntN(3)), url.Values{
			"vmid": {fmt.Sprint(id)}, "name": {fmt.Sprintf("db-%d", id)}, "pool": {"plimsoll"}, "memory": {"512"},
		})
		l.theirs[id] = err == nil
		l.note("A PERSON MAKES %d: %v", id, err)
	},
	"machine backed up": func(l *life, r *rand.Rand) {
		l.meddles(r, func(_ context.Context, v pvesim.VMState) error {
			l.inject(fmt.Sprintf("lock vm=%d as=backup for=%ds", v.ID, 10+r.IntN(300)))
			return nil
		})
	},
	"machine crashes": func(l *life, r *rand.Rand) {
		l.meddles(r, func(_ context.Context, v pvesim.VMState) error {
			l.stopped[v.ID] = true
			l.inject(fmt.Sprintf("crash vm=%d times=1", v.ID))
			return nil
		})
	},
}

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// oddities are what a pod may ask for that no machine has, or of which the scheduler only says so.
var oddities = []func(*nodescaler.Pod){
	func(*nodescaler.Pod) {},
	func(p *nodescaler.Pod) { p.Requests.CPU = 64 * pricing.Core },
	func(p *nodescaler.Pod) { p.Extra = pricing.Amounts{{Name: "nvidia.com/gpu", N: 1}} },
	func(p *nodescaler.Pod) { p.Selector = map[string]string{"disk": "ssd"} },
	func(p *nodescaler.Pod) {
		p.Selector = map[string]string{nodescaler.SelectNowhere: "a claim of a device"}
	},
	func(p *nodescaler.Pod) { p.Priority = -100 },
	func(p *nodescaler.Pod) {
		p.Volumes = []nodescaler.Affinity{{{{Key: "zone", Operator: nodescaler.In, Values: []string{"far"}}}}}
	},
	func(p *nodescaler.Pod) { p.Topology = []nodescaler.Topology{{Key: "zone", Mark: "app=x", Skew: 1}} },
}

func (l *life) oddPod(odd func(*nodescaler.Pod)) {
	l.made++
	l.pods = append(l.pods, &townPod{
		name: fmt.Sprintf("shop/odd-%d", l.made), of: &service{}, created: l.sim.Now(), asks: pricing.Resources{CPU: 100, Memory: 100 * pricing.MiB}, odd: odd,
	})
}

func (l *life) inject(text string) {
	// What a form does not need is written behind it by Sprintf.
	for i := range text {
		if text[i] == '%' {
			text = text[:i]
			break
		}
	}
	l.note("FAULT %s", text)
	all, err := pvesim.ParseFaults(text)
	if err == nil {
		err = l.sim.Inject(all[0])
	}
	if err != nil {
		l.fault("%s: %v", text, err)
	}
}

// asks makes a request as a person, of which the client knows nothing.
func (l *life) asks(method, path string, form url.Values) error {
	req, err := http.NewRequest(method, "https://pve1:8006/api2/json"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "PVEAPIToken="+l.sim.Token("person@pve", "life", false))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := l.sim.Transport().RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// takes has a person take a machine by a change of its configuration, if that succeeds.
func (l *life) takes(ctx context.Context, v pvesim.VMState, key, value string) error {
	l.theirs[v.ID] = true
	err := l.person.VM(v.Host, v.ID).SetConfig(ctx, map[string]string{key: value}, nil, "")
	for _, is := range l.sim.Inventory().VMs {
		if is.ID == v.ID && is.Config[key] == value {
			l.named[v.Config["name"]] = true
			return err
		}
	}
	delete(l.theirs, v.ID)
	return err
}

// meddles has a person do something to one of our machines that is made.
func (l *life) meddles(r *rand.Rand, do func(context.Context, pvesim.VMState) error) {
	var made []pvesim.VMState
	for _, v := range l.machines() {
		if v.Config["lock"] == "" && v.State == "running" {
			made = append(made, v)
		}
	}
	if len(made) == 0 {
		return
	}
	v := one(r, made)
	l.note("A PERSON MEDDLES WITH %d (%s): %v", v.ID, v.Config["name"], do(context.Background(), v))
}
