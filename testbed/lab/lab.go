package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Config says what a lab is made of. There is always a control plane; alone it is up in seconds,
// and enough to test against the Kubernetes API.
type Config struct {
	// Data is the folder that the lab keeps everything in. It is made if it is not there. A lab on
	// the folder of one that was stopped goes on with its objects.
	Data string
	// Cache is where tools are kept once they are built. If empty, it is CacheVariable's folder or
	// one for this user.
	Cache string
	// Checkout is the source tree that tools are built from, as a Toolbox has it.
	Checkout     string
	ControlPlane ControlPlane
	// Parts are started in their order, each when the one before it answers, and stopped in
	// reverse. Names must differ.
	Parts []Part
	// Progress hears, in words for people, what the lab is doing, a line at a time. It may be nil.
	Progress func(line string)
}

// Lab is a lab that is up.
type Lab struct {
	data     string
	tools    Toolbox
	progress func(string)
	lock     *lock
	plane    *controlPlane

	turn    sync.Mutex // held while a part is started or stopped
	mu      sync.Mutex // guards what follows
	since   time.Time
	ready   bool
	members []*member
}

// member is a part and how far it has come.
type member struct {
	part    Part
	running *Running // nil unless it is up
	status  Status
}

// Up builds what is not built, starts everything, and returns when all of it answers. If it
// cannot, it stops what it has started. What it starts ends with this process, however that ends.
func Up(ctx context.Context, cfg Config) (*Lab, error) {
	l, err := open(cfg)
	if err != nil {
		return nil, err
	}
	if err := l.start(ctx); err != nil {
		return nil, errors.Join(err, l.Down())
	}
	return l, nil
}

var partName = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)

// open checks the configuration and takes the folder.
func open(cfg Config) (*Lab, error) {
	if cfg.Data == "" {
		return nil, errors.New("data: a lab needs a folder")
	}
	data, err := filepath.Abs(cfg.Data)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	l := &Lab{data: data, progress: cfg.Progress, since: time.Now()}
	if l.progress == nil {
		l.progress = func(string) {}
	}
	l.tools = Toolbox{Cache: cfg.Cache, Checkout: cfg.Checkout, Progress: l.progress}
	l.plane = &controlPlane{cfg: cfg.ControlPlane}
	for _, p := range append([]Part{l.plane}, cfg.Parts...) {
		if err := l.admit(p); err != nil {
			return nil, err
		}
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	l.lock, err = takeLock(filepath.Join(data, lockFile))
	if errors.Is(err, errTaken) {
		return nil, fmt.Errorf("data: a lab is up in %s", data)
	}
	return l, err
}

// admit makes a part a member.
func (l *Lab) admit(p Part) error {
	name := p.Name()
	if !partName.MatchString(name) {
		return fmt.Errorf("parts: a name must be lower-case letters, digits and hyphens, was %q", name)
	}
	if _, err := l.member(name); err == nil {
		return fmt.Errorf("parts: each must have a name of its own, %q is there twice", name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.members = append(l.members, &member{part: p, status: Status{Name: name, State: StateWaiting, Since: time.Now()}})
	return nil
}

// start starts the members, once all the programs they need are there.
func (l *Lab) start(ctx context.Context) error {
	l.turn.Lock()
	defer l.turn.Unlock()
	if err := l.record(); err != nil {
		return err
	}
	for _, m := range l.members {
		if err := l.build(ctx, m.part); err != nil {
			return err
		}
	}
	for _, m := range l.members {
		if err := l.startMember(ctx, m); err != nil {
			return err
		}
	}
	l.mu.Lock()
	l.ready = true
	l.mu.Unlock()
	return l.record()
}

// build builds what a part needs.
func (l *Lab) build(ctx context.Context, p Part) error {
	b, ok := p.(Builder)
	if !ok {
		return nil
	}
	for _, t := range b.Tools() {
		if _, err := l.tools.Path(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// Down stops all parts in reverse order and returns when nothing is left of them but the folder.
// It stops all it can and says what would not stop. A second Down does nothing.
func (l *Lab) Down() error {
	l.turn.Lock()
	defer l.turn.Unlock()
	if l.lock == nil {
		return nil
	}
	l.mu.Lock()
	l.ready = false
	l.mu.Unlock()
	var errs []error
	for i := len(l.members) - 1; i >= 0; i-- {
		ctx, cancel := context.WithTimeout(context.Background(), farewell)
		errs = append(errs, l.stopMember(ctx, l.members[i]))
		cancel()
	}
	errs = append(errs, l.record(), l.lock.release())
	l.lock = nil
	return errors.Join(errs...)
}

// Data is the folder of the lab.
func (l *Lab) Data() string { return l.data }

// Folder makes and returns the folder of a part.
func (l *Lab) Folder(part string) (string, error) {
	folder := filepath.Join(l.data, part)
	return folder, os.MkdirAll(folder, 0o700)
}

// Log is the file that a part logs to.
func (l *Lab) Log(part string) string { return Log(l.data, part) }

// Kubeconfig is the file with which everything is allowed.
func (l *Lab) Kubeconfig() string { return l.plane.kubeconfig(l, adminUser) }

// AuditLog is the file in which the API server writes who changed what, and what users read.
func (l *Lab) AuditLog() string { return filepath.Join(l.data, ControlPlanePart, "audit.log") }

// REST returns a configuration of its own for a client of this process, with which everything is
// allowed. It does not hold the client back.
func (l *Lab) REST() *rest.Config {
	cfg, err := clientcmd.BuildConfigFromFlags("", l.Kubeconfig())
	if err != nil {
		// The control plane wrote it before it was up.
		panic(fmt.Sprintf("kubeconfig of the lab: %v", err))
	}
	cfg.QPS = -1
	return cfg
}

// Tool returns the path of a program, and builds it if it was not needed before.
func (l *Lab) Tool(ctx context.Context, t Tool) (string, error) { return l.tools.Path(ctx, t) }

// Endpoint is the URL of an endpoint of a part that is up, or "".
func (l *Lab) Endpoint(part, name string) string {
	for _, s := range l.Status() {
		for _, e := range s.Endpoints {
			if s.Name == part && s.State == StateUp && e.Name == name {
				return e.URL
			}
		}
	}
	return ""
}
