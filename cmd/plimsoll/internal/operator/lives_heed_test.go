package operator

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// reader has a person read the log, for what is left over.
type reader struct{ l *life }

func (reader) Enabled(context.Context, slog.Level) bool { return true }
func (r reader) WithAttrs([]slog.Attr) slog.Handler     { return r }
func (r reader) WithGroup(string) slog.Handler          { return r }

func (r reader) Handle(_ context.Context, rec slog.Record) error {
	if rec.Message == "left over" {
		rec.Attrs(func(a slog.Attr) bool {
			if a.Key == "why" {
				r.l.leftOver = append(r.l.leftOver, a.Value.String())
			}
			return true
		})
	}
	return nil
}

// errand is a command that a person runs at a host.
type errand struct {
	command string
	vm      pvesim.VMState
}

// advised is a command in the words of the product.
var advised = regexp.MustCompile(`(qm (?:unlock|stop|set|destroy)) (\d+)`)

// heed has a person read what the product says of machines that it does not touch, resume pools
// that are braked, and plan what it advises for machines that are needed no more.
func (l *life) heed() {
	texts := l.leftOver
	l.leftOver = nil
	for _, p := range l.pools {
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionMachinesHeld); c != nil {
			texts = append(texts, c.Message)
		}
		if meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionBraked) {
			l.resume(p)
		}
	}
	if len(l.errands) > 0 {
		return // one after the other
	}
	for _, text := range texts {
		for _, words := range advised.FindAllStringSubmatch(text, -1) {
			id, _ := strconv.Atoi(words[2])
			all := l.machines()
			if i := slices.IndexFunc(all, func(v pvesim.VMState) bool { return v.ID == id }); i >= 0 && !l.serves(id) {
				l.errands = append(l.errands, errand{words[1], all[i]})
			}
		}
	}
}

// resume has a person resume a pool.
func (l *life) resume(p *v1alpha1.VMPool) {
	p.Annotations = map[string]string{v1alpha1.AnnotationResumed: l.now().UTC().Format(time.RFC3339)}
}

// serves reports whether a machine's node is ready.
func (l *life) serves(id int) bool {
	return slices.ContainsFunc(l.nodes, func(n *townNode) bool { return n.vmid == id && n.Ready })
}

// runErrands has a person do what is to be done, again and again while the cluster has no quorum.
func (l *life) runErrands() {
	l.errands = slices.DeleteFunc(l.errands, func(e errand) bool {
		err := l.do(e)
		l.note("A PERSON RUNS %s %d (%s): %v", e.command, e.vm.ID, e.vm.Config["name"], err)
		return !pveapi.Is(err, pveapi.NoQuorum)
	})
}

func (l *life) do(e errand) (err error) {
	ctx, id, host := context.Background(), e.vm.ID, e.vm.Host
	switch e.command {
	case "qm start":
		_, err = l.person.VM(host, id).Start(ctx)
		return err
	case "qm unlock":
		return l.sim.Unlock(id)
	case "qm set":
		return l.person.VM(host, id).SetConfig(ctx, map[string]string{"protection": "0"}, nil, "")
	case "qm stop":
		_, err = l.person.VM(host, id).Stop(ctx, true)
	case "qm destroy":
		_, err = l.person.VM(host, id).Destroy(ctx, true)
	default:
		return fmt.Errorf("no such command: %s", e.command)
	}
	l.advance(5 * time.Second) // it waits for its task
	return err
}
