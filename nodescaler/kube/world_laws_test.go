package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/testbed/kubesim"
)

// oldest is how old the copies may be while they are said to be up to date: as long as the API
// server may be unreachable, and as long as it takes to ask it.
const oldest = 36 * time.Second

// lookout follows what the server holds of a kind, as changes make it.
type lookout struct {
	read    int // changes
	current map[string]held1
	was     map[string]time.Time // until when a version was the last, by key, UID and version
}

type held1 struct {
	version string
	since   time.Time
}

func versionOf(uid, version string) string { return uid + "@" + version }

func idOf(i copies.Kind) string {
	k := &copies.Kinds[i]
	if k.Group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.Group
}

func (l *lookout) follow(changes []kubesim.Change) {
	if l.current == nil {
		l.current, l.was = map[string]held1{}, map[string]time.Time{}
	}
	for i := range changes[l.read:] {
		c := &changes[l.read+i]
		if before, there := l.current[c.Key]; there {
			l.was[c.Key+"="+before.version] = c.At
		}
		if delete(l.current, c.Key); c.Type == "DELETED" {
			continue
		}
		version := versionOf(c.UID, fmt.Sprint(c.Version))
		l.current[c.Key] = held1{version, c.At}
		delete(l.was, c.Key+"="+version) // of a snapshot that was restored
	}
	l.read = len(changes)
}

// differs returns in what copies differ from all that the server held after a time.
func (l *lookout) differs(copies map[string]string, after time.Time) string {
	for key, version := range copies {
		if l.current[key].version == version {
			continue
		}
		if until, was := l.was[key+"="+version]; !was || until.Before(after) {
			return fmt.Sprintf("%s is held as %s, which ended at %s; it is %q", key, version, until, l.current[key].version)
		}
	}
	for key, is := range l.current {
		if _, held := copies[key]; !held && is.since.Before(after) {
			return fmt.Sprintf("%s is not held, and is there since %s", key, is.since)
		}
	}
	return ""
}

// copied are the versions of the copies of a kind, by key.
func (c *Cluster) copied(i copies.Kind) map[string]string {
	all := map[string]string{}
	for _, o := range copies.All[metav1.Object](c.copies, i) {
		key := o.GetName()
		if o.GetNamespace() != "" {
			key = o.GetNamespace() + "/" + key
		}
		all[key] = versionOf(string(o.GetUID()), o.GetResourceVersion())
	}
	return all
}

// compare compares the copies of a process with what the server held after a time.
func (w *world) compare(p *process, after time.Time) {
	for i := range copies.NumberOfKinds {
		k := &copies.Kinds[i]
		if k.Foreign {
			continue
		}
		copied := p.port().copied(i) // before the history: what comes meanwhile is in both
		w.looks[i].follow(w.server.History(idOf(i)))
		if what := w.looks[i].differs(copied, after); what != "" {
			w.fault("%s has old %s: %s", p.name, k.Resource, what)
			return
		}
	}
}

// oldest is of when copies may be that are said to be up to date.
func (w *world) oldest(now time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := now.Add(-oldest)
	if now.Before(w.blurred) {
		after = after.Add(-4*time.Minute - maxLate*time.Second) // after which a watch is silent
	}
	return after
}

// upToDate checks that no process takes old copies for new ones.
func (w *world) upToDate() {
	after := w.oldest(time.Now())
	if after.Before(w.began) {
		return
	}
	for _, p := range w.procs {
		p.mayNot()
		fresh := p.port().Fresh() == nil
		if p.count("fresh", fresh); fresh {
			w.compare(p, after)
		}
	}
}

// mayNot has a process that does not lead try to write.
func (p *process) mayNot() {
	c := p.port()
	if c.Leading() {
		return
	}
	ctx, cancel := context.WithTimeout(p.context(), time.Millisecond)
	defer cancel()
	if err := c.RemoveNode(ctx, "none"); !errors.Is(err, ErrNotLeader) && !c.Leading() {
		p.fault("%s does not lead, and removes a node: %v", p.name, err)
	}
}

func (w *world) count(what string, how any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.did[fmt.Sprintf("%s %v", what, how)]++
}

// oneLeads checks that no two processes lead.
func (w *world) oneLeads() {
	lead := 0
	for _, p := range w.procs {
		if p.port().Leading() {
			lead++
		}
	}
	w.count("leaders", lead)
	if lead > 1 {
		w.fault("%d processes lead", lead)
	}
}

// sends checks a write as it leaves a process.
func (p *process) sends(call kubesim.Call) {
	p.count("sent "+call.Method, call.Kind+"/"+call.Sub)
	switch {
	case call.Kind == "leases.coordination.k8s.io" || call.Kind == "":
		return
	case call.Method == "DELETE" && call.Kind != "nodes":
		p.fault("%s deletes %s %s", p.name, call.Kind, call.Key)
	}
	// A renewal that ran out at this very moment is one still.
	if time.Now().After(p.port().lead.until()) {
		p.fault("%s does not lead, and sends %s %s %s", p.name, call.Method, call.Kind, call.Key)
	}
	for _, o := range p.procs {
		if c := o.port(); o != p && c != nil && c.Leading() {
			p.fault("%s sends %s %s %s while %s leads", p.name, call.Method, call.Kind, call.Key, o.name)
		}
	}
}

// recovered checks that the processes are as they should be a while after the last fault.
func (w *world) recovered() {
	lead := 0
	for _, p := range w.procs {
		if err := p.port().Fresh(); err != nil {
			w.fault("%s after the last fault, %s: %v", recovery, p.name, err)
		}
		if p.port().Leading() {
			lead++
		}
	}
	if lead != 1 {
		w.fault("%s after the last fault, %d processes lead", recovery, lead)
	}
}

// inOrder checks, once nothing happens any more, that all is observed as it is.
func (w *world) inOrder() {
	time.Sleep(5 * time.Second)
	acted := time.Time{}
	for _, p := range w.procs {
		w.compare(p, time.Now().Add(-2*time.Second))
		state, err := p.port().Observe(w.context())
		if err != nil {
			w.fault("at the end %s: %v", p.name, err)
			continue
		}
		picture, err := Look(w.context(), Config{REST: w.server.Client("people", nil).Config()})
		if err != nil {
			w.fault("at the end a look: %v", err)
			continue
		}
		if diff := cmp.Diff(fmt.Sprintf("%+v", picture.State.Nodes), fmt.Sprintf("%+v", state.Nodes)); diff != "" {
			w.fault("at the end %s sees other nodes than there are:\n%s", p.name, diff)
		}
		if diff := cmp.Diff(fmt.Sprintf("%+v", picture.State.Pods), fmt.Sprintf("%+v", state.Pods)); diff != "" {
			w.fault("at the end %s sees other pods than there are:\n%s", p.name, diff)
		}
		if diff := cmp.Diff(picture.State.Replicas, state.Replicas); diff != "" {
			w.fault("at the end %s sees other replicas than there are:\n%s", p.name, diff)
		}
		if diff := cmp.Diff(picture.State.Budgets, state.Budgets); diff != "" {
			w.fault("at the end %s sees other budgets than there are:\n%s", p.name, diff)
		}
		if n, have := len(state.Pods), len(w.server.Keys("pods")); n != have {
			w.fault("at the end %s sees %d pods of %d", p.name, n, have)
		}
		if p.acted.After(acted) {
			acted = p.acted
		}
	}
	if ago := time.Since(acted); ago > time.Minute {
		w.fault("at the end nothing was written for %s", ago)
	}
}
