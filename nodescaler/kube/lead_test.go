package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// slowLock is a lease that answers late, or not as hoped.
type slowLock struct {
	resourcelock.Interface
	takes  time.Duration
	fails  error
	during func()
}

func (l *slowLock) Identity() string { return "me" }

func (l *slowLock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

func (l *slowLock) Update(context.Context, resourcelock.LeaderElectionRecord) error {
	if l.during != nil {
		l.during()
	}
	time.Sleep(l.takes)
	return l.fails
}

// A process may be stopped between sending a renewal and reading the answer. By then others may
// lead.
func TestLeadIsCountedFromTheRequestNotTheAnswer(t *testing.T) {
	mine, nobodys := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}, resourcelock.LeaderElectionRecord{}
	for _, c := range []struct {
		name   string
		record resourcelock.LeaderElectionRecord
		lock   slowLock
		after  time.Duration // from the answer on
		leads  bool
	}{
		{name: "answered at once", record: mine, leads: true},
		{name: "answered late", record: mine, lock: slowLock{takes: 9 * time.Second}, leads: true},
		{name: "and then used for long", record: mine, lock: slowLock{takes: 9 * time.Second}, after: 2 * time.Second},
		{name: "answered too late", record: mine, lock: slowLock{takes: time.Minute}},
		{name: "refused", record: mine, lock: slowLock{fails: errors.New("conflict")}},
		{name: "given up", record: nobodys},
	} {
		for how, send := range map[string]func(timedLock) error{
			"created": func(l timedLock) error { return l.Create(t.Context(), c.record) },
			"updated": func(l timedLock) error { return l.Update(t.Context(), c.record) },
		} {
			synctest.Test(t, func(t *testing.T) {
				var port Cluster
				if err := send(timedLock{&c.lock, &port.lead}); !errors.Is(err, c.lock.fails) {
					t.Fatal(err)
				}
				time.Sleep(c.after)
				if got := port.Leading(); got != c.leads {
					t.Errorf("%s, %s: leading %v, want %v", how, c.name, got, c.leads)
				}
			})
		}
	}
}

// client-go logs what a lease is refused by, again and again: the line names the fix.
func TestALeaseWithoutItsNamespaceNamesTheFix(t *testing.T) {
	missing := apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "autoscaling")
	lock := timedLock{&slowLock{fails: missing}, &lease{namespace: "autoscaling"}}
	const want = `namespace: must be one that there is, was "autoscaling" (kubectl create namespace autoscaling): namespaces "autoscaling" not found`
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "me"}); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestLeadEndsBeforeItIsGivenUp(t *testing.T) {
	var port Cluster
	port.leads(0)
	lock := &slowLock{during: func() {
		if port.Leading() {
			t.Error("it still led when others could")
		}
	}}
	if err := (timedLock{lock, &port.lead}).Update(t.Context(), resourcelock.LeaderElectionRecord{}); err != nil {
		t.Error(err)
	}
}

// One renewal that fails ends nothing: there is time for another.
func TestFailedRenewalLeavesTheLastOneStanding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var port Cluster
		mine := resourcelock.LeaderElectionRecord{HolderIdentity: "me"}
		lock := &slowLock{}
		must.Do(t, (timedLock{lock, &port.lead}).Update(t.Context(), mine))
		lock.takes, lock.fails = 5*time.Second, errors.New("timeout")
		if err := (timedLock{lock, &port.lead}).Update(t.Context(), mine); err == nil || !port.Leading() {
			t.Errorf("%v, leading %v", err, port.Leading())
		}
		time.Sleep(5 * time.Second)
		if port.Leading() {
			t.Error("led beyond the deadline")
		}
	})
}
