package operator

import (
	"errors"
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/resources"
	"github.com/plimsoll/plimsoll/podscaler"
	podpolicy "github.com/plimsoll/plimsoll/podscaler/policy"
	"github.com/plimsoll/plimsoll/podscaler/rightsize"
	"github.com/plimsoll/plimsoll/podscaler/signals"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// readings keep what objects were read as. An object whose name and spec are as they were is
// not read again: that takes longer than all else of a quiet step. The zero readings hold
// nothing.
type readings struct {
	workloads, pools, books map[types.UID]reading
}

// reading is an object's name and spec, and what they were read as: a *workloadRead, *poolRead
// or *bookRead.
type reading struct {
	namespace, name string
	spec            any
	read            any
}

func (r *reading) is(namespace, name string, spec any) bool {
	return r.read != nil && r.namespace == namespace && r.name == name && reflect.DeepEqual(r.spec, spec)
}

// workloadRead is what a WorkloadAutoscaler was read as. It is not changed.
type workloadRead struct {
	words   podscaler.Workload
	policy  podpolicy.Spec
	signals signals.Spec
	sizes   *rightsize.Wants
	invalid error
	fresh   podscaler.Policy // which has seen nothing; nil of what is invalid
}

// workload reads a WorkloadAutoscaler.
func (r *readings) workload(a *v1alpha1.WorkloadAutoscaler) *workloadRead {
	if kept := r.workloads[a.UID]; kept.is(a.Namespace, a.Name, &a.Spec) {
		return kept.read.(*workloadRead)
	}
	w := &workloadRead{}
	w.words, w.policy, w.signals, w.invalid = resources.Autoscaler(a)
	var fault error
	if w.sizes, fault = resources.Rightsize(a); fault != nil {
		w.invalid = errors.Join(w.invalid, fault)
	}
	if fresh, err := w.policy.New(); w.invalid == nil && err == nil {
		w.fresh = fresh
	}
	r.workloads = keep(r.workloads, a.UID, reading{a.Namespace, a.Name, a.Spec.DeepCopy(), w})
	return w
}

// bookRead is what a PriceBook was read as. It is not changed.
type bookRead struct {
	prices  *pricing.Book
	invalid error
}

// book reads a PriceBook.
func (r *readings) book(b *v1alpha1.PriceBook) (*pricing.Book, error) {
	if kept := r.books[b.UID]; kept.is("", b.Name, &b.Spec) {
		read := kept.read.(*bookRead)
		return read.prices, read.invalid
	}
	read := &bookRead{}
	read.prices, read.invalid = resources.Book(b)
	r.books = keep(r.books, b.UID, reading{"", b.Name, b.Spec.DeepCopy(), read})
	return read.prices, read.invalid
}

// poolRead is what a VMPool was read as, without the files that it names, and what was said of
// it when it was checked with them.
type poolRead struct {
	pool    settings.Pool
	invalid error
	checked *settings.Pool
	fault   error
}

// pool reads a VMPool, and the files that it names, if they are at hand. Those are read every
// time.
func (r *readings) pool(p *v1alpha1.VMPool, files func(string) ([]byte, error)) (settings.Pool, error) {
	kept := r.pools[p.UID]
	if !kept.is("", p.Name, &p.Spec) {
		read := &poolRead{}
		read.pool, read.invalid = resources.Pool(p)
		kept = reading{"", p.Name, p.Spec.DeepCopy(), read}
		r.pools = keep(r.pools, p.UID, kept)
	}
	read := kept.read.(*poolRead)
	pool := read.pool
	if read.invalid != nil || files == nil {
		return pool, read.invalid
	}
	if err := pool.Join.Read(files); err != nil {
		return pool, fmt.Errorf("spec.join: %w", err)
	}
	if read.checked == nil || !reflect.DeepEqual(*read.checked, pool) {
		read.fault = pool.Validate()
		checked := pool
		read.checked = &checked
	}
	return pool, read.fault
}

// maxReadings is how many readings are kept: those of objects that are no more are among them.
const maxReadings = 10_000

func keep(all map[types.UID]reading, id types.UID, r reading) map[types.UID]reading {
	if all == nil || len(all) >= maxReadings {
		all = map[types.UID]reading{}
	}
	all[id] = r
	return all
}
