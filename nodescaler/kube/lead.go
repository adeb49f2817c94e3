package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// Another process takes the lease leaseDuration after it saw the last renewal. The holder writes
// for no longer than renewDeadline after it sent the last accepted renewal. That is earlier by any
// clock that runs at the right speed, even if it shows the wrong time.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// lease is what this process leads by, and how long it certainly does.
type lease struct {
	to              *rest.Config
	namespace, name string
	log             *slog.Logger

	renewed atomic.Pointer[time.Time] // when the last accepted renewal was sent; nil for none
	holder  atomic.Pointer[string]    // our identity, for logs
}

// until returns when leadership is no longer certain: long ago, if it is not held.
func (l *lease) until() time.Time {
	renewed := l.renewed.Load()
	if renewed == nil {
		return time.Time{}
	}
	return renewed.Add(renewDeadline)
}

// timedLock notes when renewals were sent. A process that was suspended may read the answer much
// later, when another process holds the lease.
type timedLock struct {
	resourcelock.Interface
	lead *lease
}

func (l timedLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := l.timed(r, func() error { return l.Interface.Create(ctx, r) })
	if apierrors.IsNotFound(err) { // what a lease is made in is not there
		return fmt.Errorf("namespace: must be one that there is, was %q (kubectl create namespace %s): %w", l.lead.namespace, l.lead.namespace, err)
	}
	return err
}

func (l timedLock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.timed(r, func() error { return l.Interface.Update(ctx, r) })
}

func (l timedLock) timed(r resourcelock.LeaderElectionRecord, send func() error) error {
	sent := time.Now()
	if r.HolderIdentity != l.Identity() { // given up, from now on and not from the answer on
		l.lead.renewed.Store(nil)
		return send()
	}
	err := send()
	if err == nil {
		l.lead.renewed.Store(&sent)
	}
	return err
}

// run waits until this process leads, runs work, and gives the lead back.
func (l *lease) run(ctx context.Context, identity string, work func(context.Context)) error {
	if identity == "" || l.namespace == "" || l.name == "" {
		return errors.New("lead: identity, namespace and name of the lease must not be empty")
	}
	lock, err := l.lock(identity)
	if err != nil {
		return fmt.Errorf("lead: %w", err)
	}
	l.holder.Store(&identity)
	// The election goes on while work ends, so that no other process begins before.
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	term := &term{ctx: ctx, work: work, stop: stop, ended: make(chan struct{})}
	unhook := context.AfterFunc(ctx, term.withdraw)
	defer unhook()
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, Name: l.name, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: term.begin, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return fmt.Errorf("lead: %w", err)
	}
	elector.Run(electing)
	lost := electing.Err() == nil
	term.finish()
	if lost {
		l.renewed.Store(nil)
		return fmt.Errorf("lead: %w: the lease %s/%s could not be renewed in time", ErrNotLeader, l.namespace, l.name)
	}
	l.release(lock)
	return nil
}

// lock is the lease, reached by a client of its own: a renewal does not wait behind other calls,
// and one that hangs is given up in time for another.
func (l *lease) lock(identity string) (resourcelock.Interface, error) {
	cfg := rest.CopyConfig(l.to)
	cfg.Timeout, cfg.QPS = renewDeadline/2, -1
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return timedLock{&resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: l.name},
		Client:    client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
	}, l}, nil
}

// release gives the lease back, so that the next leader need not wait for it to run out. Work has
// ended.
func (l *lease) release(lock resourcelock.Interface) {
	if l.renewed.Swap(nil) == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), renewDeadline/2)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err == nil && held.HolderIdentity == lock.Identity() {
		now := metav1.Now()
		err = lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now, LeaderTransitions: held.LeaderTransitions,
		})
	}
	if err != nil && !apierrors.IsNotFound(err) {
		l.log.Warn("the lease was not released, and expires by itself", "err", err)
	}
}

// term is one time of leading. It begins and ends once, whichever comes first.
type term struct {
	ctx  context.Context
	work func(context.Context)
	stop func()

	mu          sync.Mutex
	began, over bool
	ended       chan struct{} // closed when work returned
}

// begin runs work until the lead is lost or the caller's context is done.
func (t *term) begin(leading context.Context) {
	t.mu.Lock()
	if t.over || t.ctx.Err() != nil {
		t.mu.Unlock()
		t.stop()
		return
	}
	t.began = true
	t.mu.Unlock()
	defer t.stop()
	defer close(t.ended)
	working, cancel := context.WithCancel(leading)
	defer cancel()
	unhook := context.AfterFunc(t.ctx, cancel)
	defer unhook()
	t.work(working)
}

// withdraw ends the election if it was not won yet.
func (t *term) withdraw() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		t.stop()
	}
}

// finish waits for work to return, and lets none begin after.
func (t *term) finish() {
	t.mu.Lock()
	t.over = true
	began := t.began
	t.mu.Unlock()
	if began {
		<-t.ended
	}
}
