package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
)

// Services have addresses, although nothing listens there: no packet leaves a lab.
const serviceRange = "10.96.0.0/16"

var serviceIP = net.IPv4(10, 96, 0, 1)

// plane is a control plane: its folder, its keys, and where its API server listens.
type plane struct {
	folder   string
	pki      pki
	ca       *authority
	listener net.Listener
	url      string
}

// ready is the file that is there while the control plane answers.
const ready = "ready.json"

// newPlane prepares the folder and the keys, and takes the port.
func newPlane(folder string, port int) (*plane, error) {
	p := &plane{folder: folder, pki: pki{filepath.Join(folder, "pki")}}
	if err := os.MkdirAll(p.pki.folder, 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(folder, ready)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var err error
	if p.ca, err = p.pki.authority("ca"); err != nil {
		return nil, err
	}
	if p.listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		return nil, fmt.Errorf("--port: %w", err)
	}
	p.url = "https://" + p.listener.Addr().String()
	return p, nil
}

// serve starts the servers in the order in which they need each other, says when they answer, and
// stops them in reverse when the context is done or one of them ends.
func (p *plane) serve(ctx context.Context, ask *request) (err error) {
	for _, who := range append(ask.users, own...) {
		if err := p.writeKubeconfig(who); err != nil {
			return err
		}
	}
	etcd, stopEtcd, err := p.startEtcd(ctx)
	if err != nil {
		return err
	}
	defer stopEtcd()

	api := newServer(ctx)
	defer func() { err = errors.Join(err, api.end("kube-apiserver")) }()
	if err := p.startAPIServer(api, etcd, ask.apiserver); err != nil {
		return fmt.Errorf("kube-apiserver: %w", err)
	}
	client, err := p.client()
	if err != nil {
		return err
	}
	if err := await(ctx, "kube-apiserver answers", api, answers(client)); err != nil {
		return err
	}

	rest := newServer(ctx)
	defer func() { err = errors.Join(err, rest.end("kube-controller-manager and kube-scheduler")) }()
	if err := p.startControllerManager(rest, ask.manager); err != nil {
		return fmt.Errorf("kube-controller-manager: %w", err)
	}
	if err := p.startScheduler(rest, ask.scheduler); err != nil {
		return fmt.Errorf("kube-scheduler: %w", err)
	}
	if err := await(ctx, "pods can be made in the default namespace", rest, hasServiceAccount(client)); err != nil {
		return err
	}
	return p.stay(ctx, api, rest)
}

// stay says that all is ready, and returns when it no longer is.
func (p *plane) stay(ctx context.Context, servers ...*server) error {
	text, err := json.Marshal(map[string]any{
		"pid": os.Getpid(), "url": p.url, "kubeconfig": p.kubeconfig(admin.name), "version": version.Get().GitVersion,
	})
	if err != nil {
		return err
	}
	marker := filepath.Join(p.folder, ready)
	if err := writeFile(marker, append(text, '\n')); err != nil {
		return err
	}
	defer func() { _ = os.Remove(marker) }() // it is removed at the next start, too
	klog.InfoS("The control plane is ready", "url", p.url, "kubeconfig", p.kubeconfig(admin.name))
	select {
	case <-ctx.Done():
	case <-servers[0].broke:
	case <-servers[1].broke:
	}
	return nil
}

// client talks to our API server as the administrator.
func (p *plane) client() (kubernetes.Interface, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig(admin.name))
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(cfg)
}

// answers is whether the API server is ready.
func answers(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		return client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	}
}

// hasServiceAccount is whether the account is there that pods are refused without. It is the
// controller manager who makes it.
func hasServiceAccount(client kubernetes.Interface) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}
}

// patience is how long a server may take to start on a machine that is busy with other things.
const patience = 5 * time.Minute

// await asks again and again, until there is no error, the server has ended, or it has been long
// enough.
func await(ctx context.Context, what string, s *server, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.broke:
			return fmt.Errorf("it ended before %s", what)
		case <-ctx.Done():
			return fmt.Errorf("waited until %s: %w", what, errors.Join(context.Cause(ctx), err))
		case <-tick.C:
		}
	}
}

// server is one or more servers that are stopped together.
type server struct {
	ctx    context.Context
	stop   context.CancelFunc
	group  sync.WaitGroup
	broke  chan struct{} // closed when one of them ended and was not asked to
	once   sync.Once
	mu     sync.Mutex
	faults []error
}

func newServer(parent context.Context) *server {
	// Their context must not end with the parent's: they are stopped in order.
	ctx, stop := context.WithCancel(context.WithoutCancel(parent))
	return &server{ctx: ctx, stop: stop, broke: make(chan struct{})}
}

// run runs a server. It may return once it is asked to stop, and not before.
func (s *server) run(name string, serve func(context.Context) error) {
	s.group.Go(func() {
		err := serve(s.ctx)
		if s.ctx.Err() != nil {
			return // what they say to their end is no fault
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = append(s.faults, fmt.Errorf("%s ended: %w", name, errors.Join(err, errors.New("it was not asked to"))))
		s.once.Do(func() { close(s.broke) })
	})
}

// farewell is how long servers may take to stop. Some wait for connections that others hold open.
const farewell = 15 * time.Second

// end stops the servers and returns what went wrong while they ran.
func (s *server) end(names string) error {
	s.stop()
	gone := make(chan struct{})
	go func() {
		s.group.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-time.After(farewell):
		return fmt.Errorf("%s: not stopped after %s", names, farewell)
	}
	return errors.Join(s.faults...)
}
