package rke2

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pve"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// Config is what a Bench is made of.
type Config struct {
	Site       *Site
	Connection pveapi.Connection
	Store      Store
	// Kubernetes returns the cluster that a kubeconfig is of. It makes no call.
	Kubernetes func(kubeconfig []byte) (Kubernetes, error)
	Now        func() time.Time
	// Wait lets time pass.
	Wait func(ctx context.Context, d time.Duration) error
	Rand *rand.Rand
	// Report gets the progress, a line at a time.
	Report func(line string)
}

// Kubernetes is the cluster that is built.
type Kubernetes interface {
	Nodes(ctx context.Context) ([]pve.Node, error)
}

// Bench builds a test bed and takes it down.
type Bench struct {
	cfg     Config
	client  *pveapi.Client
	account pveapi.Account // of the token that builds

	premises  *premises
	templates *templates

	state   state
	secrets *secrets
	fleet   *pve.Fleet
	kube    Kubernetes
	site    *settings.Site // as of the secrets that there are
	refused *pve.Refusal   // why the last order was not taken yet
	serving bool           // the control plane has joined
	leaving bool           // it is taken down, and its API asked nothing more
}

// premises are what a site has besides the test bed's machines: pools, tokens, discs and others'
// machines.
type premises struct {
	cfg     *Config
	client  *pveapi.Client
	account pveapi.Account
}

// templates are what machines are cloned from.
type templates struct {
	cfg      *Config
	client   *pveapi.Client
	premises *premises
}

// New returns the bench of a site that is valid. It makes no call to Proxmox VE.
func New(cfg Config) (*Bench, error) {
	client, err := pveapi.Connect(cfg.Connection)
	if err != nil {
		return nil, err
	}
	token, err := cfg.Connection.Token()
	if err != nil {
		return nil, err
	}
	account, err := pveapi.ParseToken(token)
	if err != nil {
		return nil, err
	}
	b := &Bench{cfg: cfg, client: client, account: account}
	b.premises = &premises{&b.cfg, client, account}
	b.templates = &templates{&b.cfg, client, b.premises}
	found, err := ReadJSON(cfg.Store, stateFile, &b.state)
	if err != nil {
		return nil, err
	}
	if found && b.state.Owner != cfg.Site.Owner {
		return nil, &Fault{Field: "owner", Text: fmt.Sprintf("must be that of the test bed whose state is kept here, %q, was %q", b.state.Owner, cfg.Site.Owner), Mend: []string{"owner: " + b.state.Owner, "or another folder for another test bed"}}
	}
	if !found {
		b.state = state{Owner: cfg.Site.Owner, Run: fmt.Sprintf("%06x", cfg.Rand.IntN(1<<24))}
	}
	var s secrets
	if found, err = ReadJSON(cfg.Store, secretsFile, &s); found {
		b.secrets = &s
	}
	return b, err
}

// Close gives up the connections.
func (b *Bench) Close() { b.client.Close() }

func (pm *premises) say(format string, args ...any) { pm.cfg.Report(fmt.Sprintf(format, args...)) }

// step is one part of the way. Done looks at the world, and do brings it about; do may be begun in
// a world where some of it is done.
type step struct {
	name, title string
	takes       time.Duration // about
	done        func(ctx context.Context) (bool, error)
	do          func(ctx context.Context) error
}

// Up builds the test bed, or what is missing of it.
func (b *Bench) Up(ctx context.Context) error { return b.walk(ctx, "up", b.upSteps()) }

// Down removes all that there is of the test bed.
func (b *Bench) Down(ctx context.Context) error {
	b.leaving = true
	if err := b.premises.dropOutlived(ctx); err != nil {
		return err
	}
	return b.walk(ctx, "down", b.downSteps())
}

// walk takes the steps one after the other.
func (b *Bench) walk(ctx context.Context, verb string, steps []step) error {
	left := time.Duration(0)
	for i := range steps {
		left += steps[i].takes
	}
	for i := range steps {
		s := &steps[i]
		b.premises.say("[%d/%d] %s, about %s of %s", i+1, len(steps), s.title, s.takes, left)
		left -= s.takes
		r := StepRecord{Verb: verb, Name: s.name, Begun: b.cfg.Now()}
		if err := b.take(ctx, s, &r); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		if s.name == forget {
			continue // there is nothing to write it to any more
		}
		b.state.record(r)
		if err := b.state.keep(b.cfg.Store); err != nil {
			return err
		}
	}
	return nil
}

// take takes one step, and sees that it led where it should.
func (b *Bench) take(ctx context.Context, s *step, r *StepRecord) error {
	done, err := s.done(ctx)
	if err != nil {
		return err
	}
	if done {
		r.Done, r.Found = b.cfg.Now(), true
		b.premises.say("      there is nothing to do")
		return nil
	}
	if err := s.do(ctx); err != nil {
		return err
	}
	if done, err = s.done(ctx); err != nil {
		return err
	}
	if !done {
		return errors.New("it was done, and the world does not show it: look what else changes it, and begin again")
	}
	r.Done = b.cfg.Now()
	b.premises.say("      done in %s", r.Done.Sub(r.Begun).Round(time.Second))
	return nil
}

// record puts a step in place of what is recorded of it.
func (s *state) record(r StepRecord) {
	for i := range s.Steps {
		if s.Steps[i].Verb == r.Verb && s.Steps[i].Name == r.Name {
			s.Steps[i] = r
			return
		}
	}
	s.Steps = append(s.Steps, r)
}

// plan is the site as of the secrets there are, or placeholders for those who make no machine.
func (b *Bench) plan() (*settings.Site, error) {
	if b.site != nil {
		return b.site, nil
	}
	c := b.secrets
	if c == nil {
		c = placeholders()
	}
	s, err := b.cfg.Site.proxmox(c)
	if err != nil {
		return nil, err
	}
	complete := s.Complete()
	b.site = &complete
	return b.site, nil
}

// comment is what the resource pool and the token say of themselves.
func (pm *premises) comment() string { return "Test bed " + pm.cfg.Site.Owner + " of Plimsoll" }

// productAccount is Plimsoll's in the cluster: a token of the same user, with rights of its own.
func (pm *premises) productAccount() pveapi.Account {
	return pveapi.Account{User: pm.account.User, Token: "plimsoll-" + strings.ReplaceAll(pm.cfg.Site.Owner, "+", "_")}
}

// until asks again and again until something holds.
func (pm *premises) until(ctx context.Context, patience, pause time.Duration, holds func(ctx context.Context) error) error {
	begun := pm.cfg.Now()
	for {
		err := holds(ctx)
		if err == nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if pm.cfg.Now().Sub(begun) > patience {
			return fmt.Errorf("not within %s: %w", patience, err)
		}
		if err := pm.cfg.Wait(ctx, pause); err != nil {
			return err
		}
	}
}
