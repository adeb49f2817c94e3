package operator

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/race"
)

// A scene is a short life without chance: manifests, a town, an emulated Proxmox VE, and what
// happens when. It asserts that codes are said, and so brings about those that lives meet seldom.
type scene struct {
	name string
	// objects are the manifests; without any it is scenePool.
	objects string
	// nodes is the node policy; without one it is joint.
	nodes nodepolicy.Spec
	// services are the Deployments of the town.
	services []*service
	// before changes the process' configuration, and more, before it starts.
	before func(*setting)
	// what happens, by when
	acts []act
	long time.Duration
	says []string
}

// act is what happens once, at a time or, with when, as soon as that is so after it.
type act struct {
	at   time.Duration
	when func(*setting) bool
	do   func(*setting)
}

// after is what happens as soon as a code was said.
func after(code string, do func(*setting)) act {
	return act{when: func(*setting) bool {
		heard.Lock()
		defer heard.Unlock()
		return heard.codes[code] > 0
	}, do: do}
}

// scaled gives a Deployment other replicas.
func scaled(at time.Duration, name string, n int) act {
	return act{at: at, do: func(l *setting) { l.service("shop/" + name).replicas = n }}
}

// scenePool is the pool of most scenes; more of its spec may follow.
const scenePool = `
kind: VMPool
metadata: {name: aa, uid: pool-aa}
spec:
  mode: Active
  min: 0
  max: 4
  shapes: [{name: small, cpu: 2, memory: 4GiB, disk: 20GiB}]
  reserved: {cpu: 200m, memory: 400MiB}
  template: {byHost: {pve1: 9001, pve2: 9002, pve3: 9003}}
  pvePool: plimsoll
  vmids: {first: 1000, last: 1019}
  iso: {storage: local}
  region: home
  guest: {agent: true}
  join: {kind: custom, userDataFile: user-data, providerID: {scheme: proxmox}}
`

// deployment is one of the town whose pods have a size.
func deployment(name string, replicas int, cpu pricing.MilliCPU, memory pricing.Bytes) *service {
	return &service{name: "shop/" + name, replicas: replicas, asks: pricing.Resources{CPU: cpu, Memory: memory}, cores: 0.2, memory: memory / 2}
}

// fault is an act in which the emulated Proxmox VE goes wrong.
func fault(at time.Duration, text string) act {
	return act{at: at, do: func(l *setting) { l.inject(text) }}
}

// setting is the life that a scene is played in.
type setting struct {
	*life
	way      *departing
	upstream *provider.Server         // that cluster-autoscaler asks
	sees     func(*loop.ClusterState) // changes what is observed
	repaired bool                     // what it shows as broken
}

// Observe is the town, with what else the cluster has.
func (l *setting) Observe(ctx context.Context) (loop.ClusterState, error) {
	s, err := l.life.Observe(ctx)
	if l.sees != nil {
		l.sees(&s)
	}
	return s, err
}

func newScene(s *scene) (*setting, error) {
	of, err := newLife(1)
	if err != nil {
		return nil, err
	}
	l := &setting{life: of, way: &departing{RoundTripper: of.sim.Transport()}}
	if l.leads.client, err = l.client("plimsoll@pve", "scene", l.way); err != nil {
		return nil, err
	}
	l.cfg.Cluster = l
	l.autoscalers, l.pools, l.services = map[string]*v1alpha1.WorkloadAutoscaler{}, map[string]*v1alpha1.VMPool{}, nil
	l.books = map[string]*v1alpha1.PriceBook{}
	for _, of := range s.services { // a scene may be played again
		own := *of
		l.services = append(l.services, &own)
	}
	l.cfg.HandOff.By, l.cfg.Quotas, l.cfg.Limit, l.cfg.Nodes = "", nil, 0, s.nodes
	l.cfg.Interval = 10 * time.Second
	slices.SortFunc(l.services, func(a, b *service) int { return strings.Compare(a.name, b.name) })
	if s.nodes.Policy == "" {
		l.cfg.Nodes.Policy = "joint"
	}
	if s.objects == "" {
		s.objects = scenePool
	}
	if err := l.apply(s.objects); err != nil {
		return nil, err
	}
	if s.before != nil {
		s.before(l)
	}
	return l, l.start()
}

// apply reads manifests into the town.
func (l *setting) apply(text string) error {
	for _, doc := range bytes.Split([]byte(text), []byte("\n---\n")) {
		into, err := manifest(doc)
		if err != nil {
			return err
		}
		switch o := into.(type) {
		case *v1alpha1.VMPool:
			l.pools[o.Name] = o
		case *v1alpha1.WorkloadAutoscaler:
			o.Namespace = "shop"
			l.autoscalers["shop/"+o.Name] = o
		case *v1alpha1.PriceBook:
			l.books[o.Name] = o
		}
	}
	return nil
}

// manifest reads an object of ours, and gives it a UID if it has none.
func manifest(text []byte) (client.Object, error) {
	var is struct{ Kind string }
	if err := yaml.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	kinds := map[string]client.Object{
		v1alpha1.KindVMPool: &v1alpha1.VMPool{}, v1alpha1.KindWorkloadAutoscaler: &v1alpha1.WorkloadAutoscaler{}, v1alpha1.KindPriceBook: &v1alpha1.PriceBook{},
	}
	o, ours := kinds[is.Kind]
	if !ours {
		return nil, fmt.Errorf("kind: %q is not one of ours", is.Kind)
	}
	if err := yaml.UnmarshalStrict(text, o); err != nil {
		return nil, err
	}
	if o.GetUID() == "" {
		o.SetUID(types.UID(is.Kind + "-" + o.GetName()))
	}
	return o, nil
}

// play lets a scene pass. Between two steps the fleet works as in lives.
func (l *setting) play(s *scene) {
	defer l.sim.Close()
	acts := slices.Clone(s.acts)
	happen := func(at time.Duration) {
		acts = slices.DeleteFunc(acts, func(a act) bool {
			due := a.at <= at && (a.when == nil || a.when(l))
			if due {
				a.do(l)
			}
			return due
		})
	}
	for at := time.Duration(0); at < s.long; at += l.cfg.Interval {
		happen(at)
		l.pass()
		if err := l.term.step(context.Background(), l.now().Round(0)); err != nil {
			l.note("%v", err)
		}
		l.term.beside.Wait()
		l.overhear()
		happen(at)
		l.rest(t0.Add(at + l.cfg.Interval))
	}
	if len(acts) > 0 {
		l.fault("%d of the scene's acts never happen", len(acts))
	}
}

// quoted are the codes in front of what errors and problems say, such as those of a refused order:
// they are texts by the time they are written down.
var quoted = regexp.MustCompile(`(?:^|[;:] )([A-Z][a-z]+[A-Za-z]*): `)

// overhear hears what the step's record and the list of machines say in texts.
func (l *setting) overhear() {
	texts := []string{}
	for _, o := range l.last.Outcomes {
		texts = append(texts, o.Error)
	}
	for _, p := range l.last.Problems {
		texts = append(texts, p.Text)
	}
	state, err := l.fleet.List(context.Background())
	if err != nil {
		texts = append(texts, err.Error())
	}
	for i := range state.Machines {
		texts = append(texts, state.Machines[i].Problem)
		hear(state.Machines[i].Held)
	}
	hear(state.Refused)
	l.hearTexts(texts...)
}

func (l *setting) hearTexts(texts ...string) {
	heard.Lock()
	defer heard.Unlock()
	for _, text := range texts {
		for _, found := range quoted.FindAllStringSubmatch(text, -1) {
			heard.codes[found[1]]++
		}
	}
}

// listened plays something and returns what was said in it. It is not for tests that are parallel.
func listened(do func()) map[string]int {
	heard.Lock()
	before := heard.codes
	heard.codes = map[string]int{}
	heard.Unlock()
	do()
	heard.Lock()
	defer heard.Unlock()
	said := heard.codes
	heard.codes = before
	return said
}

// TestScenes plays each scene. One that says its codes says them always, so that they count as
// surely heard.
func TestScenes(t *testing.T) {
	if race.On {
		t.Skip("nothing is listened to under the race detector")
	}
	for _, s := range slices.Concat(scenes...) {
		t.Run(s.name, func(t *testing.T) {
			l, err := newScene(&s)
			if err != nil {
				t.Fatal(err)
			}
			said := listened(func() { l.play(&s) })
			for _, code := range s.says {
				if said[code] == 0 {
					t.Errorf("%s is not said", code)
				} else {
					said[code] = max(said[code], surelyHeard)
				}
			}
			heard.Lock()
			if heard.codes != nil {
				for code, n := range said {
					heard.codes[code] += n
				}
			}
			heard.Unlock()
			for _, wrong := range l.wrong {
				t.Error(wrong)
			}
			if t.Failed() || testing.Verbose() {
				for _, line := range l.log {
					t.Log(line)
				}
				t.Log(slices.Sorted(maps.Keys(said)))
			}
		})
	}
}

// scenes are all there are.
var scenes = [][]scene{machineScenes, goingScenes, lifecycleScenes, rolloutScenes, manyScenes, planScenes, spareScenes, approveScenes}
