package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/plimsoll/plimsoll/testbed/lab"
)

// Part runs the pods of the nodes that have the label.
type Part struct {
	// Programs are what there is to run, by the names of images and commands.
	Programs map[string]Program

	port int
	ips  addresses
}

const (
	// PartName is the name of the part.
	PartName = "kubelet"
	// Label is the label of the nodes whose kubelet it plays.
	Label = "testbed.plimsoll.dev/kubelet"
	// LabelValue is the value that it must have.
	LabelValue = "process"
)

// Name is the part's name.
func (*Part) Name() string { return PartName }

// Start follows the nodes and pods, and serves what the API server asks a kubelet.
func (p *Part) Start(ctx context.Context, l *lab.Lab) (*lab.Running, error) {
	as, err := l.Kubelet()
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(as.REST)
	if err != nil {
		return nil, err
	}
	folder, err := l.Folder(PartName)
	if err != nil {
		return nil, err
	}
	if p.port == 0 {
		if p.port, err = lab.FreePort(); err != nil {
			return nil, err
		}
	}
	on, err := tls.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), as.TLS)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(l.Log(PartName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.Join(err, on.Close())
	}
	k := &kubelet{
		part: p, client: client, server: as.REST.Host, ca: as.CA, folder: folder, log: log.New(out, "", log.LstdFlags),
		kick: make(chan struct{}, 1), pods: map[types.UID]*pod{}, beats: map[string]time.Time{},
	}
	stop := k.begin(on)
	end := func() error { return errors.Join(stop(), out.Close()) }
	if !k.synced(ctx) {
		return nil, errors.Join(errors.New("list nodes, pods, ConfigMaps and Secrets"), ctx.Err(), end())
	}
	return &lab.Running{
		Endpoints: []lab.Endpoint{{Name: "api", URL: "https://" + on.Addr().String()}},
		Stop:      func(context.Context) error { return end() },
	}, nil
}

// kubelet is the part while it is up.
type kubelet struct {
	part   *Part
	client kubernetes.Interface
	server string // the API server's URL
	ca     string // the file with its authority
	folder string
	log    *log.Logger
	kick   chan struct{} // holds something when there is something to look at

	nodes, objects informers.SharedInformerFactory
	version        string
	beats          map[string]time.Time // when nodes were last reported

	mu   sync.Mutex
	pods map[types.UID]*pod // that are or were run
}

// begin starts what goes on until the returned function is called, which leaves no process.
func (k *kubelet) begin(on net.Listener) func() error {
	ctx, cancel := context.WithCancel(context.Background())
	k.watch()
	k.nodes.StartWithContext(ctx)
	k.objects.StartWithContext(ctx)
	var running sync.WaitGroup
	running.Go(func() { k.run(ctx) })
	web := &http.Server{Handler: k.handler(), ReadHeaderTimeout: 10 * time.Second, ErrorLog: k.log, BaseContext: func(net.Listener) context.Context { return ctx }}
	running.Go(func() {
		if err := web.Serve(on); !errors.Is(err, http.ErrServerClosed) {
			k.log.Print(err)
		}
	})
	return func() error {
		cancel()
		err := web.Close()
		k.nodes.Shutdown()
		k.objects.Shutdown()
		running.Wait()
		return err
	}
}

// synced waits until everything that is there is known.
func (k *kubelet) synced(ctx context.Context) bool {
	for _, f := range []informers.SharedInformerFactory{k.nodes, k.objects} {
		for _, known := range f.WaitForCacheSync(ctx.Done()) {
			if !known {
				return false
			}
		}
	}
	k.stir()
	return true
}

// watch sets up what is followed: our nodes; and pods, ConfigMaps and Secrets.
func (k *kubelet) watch() {
	k.nodes = informers.NewSharedInformerFactoryWithOptions(k.client, 0, informers.WithTweakListOptions(ours))
	k.objects = informers.NewSharedInformerFactory(k.client, 0)
	changed := cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { k.stir() }, UpdateFunc: func(any, any) { k.stir() }, DeleteFunc: func(any) { k.stir() },
	}
	core := k.objects.Core().V1()
	for _, i := range []cache.SharedIndexInformer{
		k.nodes.Core().V1().Nodes().Informer(), core.Pods().Informer(), core.ConfigMaps().Informer(), core.Secrets().Informer(),
	} {
		_, _ = i.AddEventHandler(changed) // it fails on stopped informers only
	}
}

// stir has everything looked at soon.
func (k *kubelet) stir() {
	select {
	case k.kick <- struct{}{}:
	default:
	}
}

// run looks at nodes and pods until the context is done, and ends when all processes have.
func (k *kubelet) run(ctx context.Context) {
	var pods sync.WaitGroup
	defer pods.Wait()
	if !k.known(ctx) {
		return
	}
	k.forget()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for ctx.Err() == nil {
		mine := k.keepNodes(ctx)
		k.assign(ctx, mine, &pods)
		select {
		case <-ctx.Done():
		case <-k.kick:
		case <-tick.C:
		}
	}
}

// known waits until what is followed is known: a pod that is only not yet seen would be taken for
// one that is gone.
func (k *kubelet) known(ctx context.Context) bool {
	core := k.objects.Core().V1()
	return cache.WaitForCacheSync(ctx.Done(), k.nodes.Core().V1().Nodes().Informer().HasSynced,
		core.Pods().Informer().HasSynced, core.ConfigMaps().Informer().HasSynced, core.Secrets().Informer().HasSynced)
}

// assign runs a worker for every pod of our nodes, and wakes it when the pod may have changed.
func (k *kubelet) assign(ctx context.Context, mine map[string]bool, running *sync.WaitGroup) {
	there := map[types.UID]*corev1.Pod{}
	for _, o := range k.objects.Core().V1().Pods().Informer().GetStore().List() {
		if p, is := o.(*corev1.Pod); is && mine[p.Spec.NodeName] {
			there[p.UID] = p
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for uid, o := range there {
		if k.pods[uid] == nil {
			p := k.newPod(o)
			k.pods[uid] = p
			running.Go(func() {
				p.run(ctx)
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.pods, uid)
			})
		}
	}
	for _, p := range k.pods {
		p.silent.Store(!mine[p.node])
		p.stir()
	}
}

// look is a pod as the API server has it, or nil if it is gone.
func (k *kubelet) look(p *pod) *corev1.Pod {
	o, there, err := k.objects.Core().V1().Pods().Informer().GetStore().GetByKey(p.namespace + "/" + p.name)
	if now, is := o.(*corev1.Pod); err == nil && there && is && now.UID == p.uid {
		return now
	}
	return nil
}

// forget removes the folders of pods that have gone while the part was down.
func (k *kubelet) forget() {
	live := map[string]bool{}
	for _, o := range k.objects.Core().V1().Pods().Informer().GetStore().List() {
		if p, is := o.(*corev1.Pod); is {
			live[string(p.UID)] = true
		}
	}
	folders, _ := filepath.Glob(filepath.Join(k.folder, "pods", "*"))
	for _, f := range folders {
		if !live[filepath.Base(f)] {
			k.clean(f)
		}
	}
}

func (k *kubelet) clean(folder string) {
	if err := os.RemoveAll(folder); err != nil {
		k.log.Print(err)
	}
}

// addresses gives pods addresses of this machine. Labs that are up at once draw from ranges of
// their own, most likely.
type addresses struct {
	mu   sync.Mutex
	next netip.Addr
}

func (a *addresses) take() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.next.IsValid() {
		a.next = netip.AddrFrom4([4]byte{127, byte(64 + rand.IntN(128)), byte(rand.IntN(256)), 0})
	}
	a.next = a.next.Next()
	return a.next.String()
}

var errUnsupported = errors.New("the lab's kubelet does not do this")

func unsupported(what string) error { return fmt.Errorf("%s: %w", what, errUnsupported) }
