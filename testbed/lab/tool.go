package lab

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Tool is a program that the lab needs, and that Go builds when it is first needed.
type Tool string

// The tools.
const (
	ToolControlPlane Tool = "controlplane"
	ToolKWOK         Tool = "kwok"
	ToolPrometheus   Tool = "prometheus"
	ToolK6           Tool = "k6"
	ToolKubelet      Tool = "kubelet" // of machines that boot
	ToolKubeadm      Tool = "kubeadm"
)

// Tools are those that a lab needs, in the order in which it pays to build them.
var Tools = []Tool{ToolControlPlane, ToolKWOK, ToolPrometheus, ToolK6}

// recipe is how a tool is built: the folder of its module, the package in it, and the module that
// gives it its version.
type recipe struct {
	folder, pkg, module string
	tags                string
	// names says, with %s for the version, what is linked in for the tool to know its version.
	names []string
}

var recipes = map[Tool]recipe{
	ToolControlPlane: {
		folder: "controlplane", pkg: ".", module: "k8s.io/kubernetes",
		names: []string{"k8s.io/component-base/version.gitVersion=%s"},
	},
	ToolKWOK: {
		folder: "tools/kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", module: "sigs.k8s.io/kwok",
		names: []string{"sigs.k8s.io/kwok/pkg/consts.Version=%s"},
	},
	ToolPrometheus: {
		folder: "tools/prometheus", pkg: "github.com/prometheus/prometheus/cmd/prometheus", module: "github.com/prometheus/prometheus",
		// What remains finds its targets in files, as the lab uses it, and in a cluster, as
		// manifests of ours do.
		tags:  "remove_all_sd,enable_kubernetes_sd",
		names: []string{"github.com/prometheus/common/version.Version=%s"},
	},
	ToolK6: {folder: "tools/k6", pkg: "go.k6.io/k6", module: "go.k6.io/k6"},
	ToolKubelet: {
		folder: "tools/kubelet", pkg: "k8s.io/kubernetes/cmd/kubelet", module: "k8s.io/kubernetes",
		names: []string{"k8s.io/component-base/version.gitVersion=%s"},
	},
	ToolKubeadm: {
		folder: "tools/kubelet", pkg: "k8s.io/kubernetes/cmd/kubeadm", module: "k8s.io/kubernetes",
		names: []string{"k8s.io/component-base/version.gitVersion=%s"},
	},
}

// CacheVariable is the environment variable that names the folder for what is built.
const CacheVariable = "PLIMSOLL_CACHE"

// Toolbox builds tools and keeps them, one file for each version, for all labs on a machine.
type Toolbox struct {
	// Cache is the folder they are kept in. If empty, it is CacheVariable's or one for this user.
	Cache string
	// Checkout is the source tree. If empty, it is looked for from the working directory upwards,
	// and without one, the sources that the program has are taken.
	Checkout string
	// Progress hears how far a build is, a line at a time. It may be nil.
	Progress func(line string)
}

// Path returns the file of a tool, and builds it first if it is not there. Of k6, one that people
// have does as well.
func (b Toolbox) Path(ctx context.Context, t Tool) (string, error) {
	if t == ToolK6 {
		return b.k6(ctx)
	}
	return b.built(ctx, t)
}

// built returns the file of a tool that we build. One tool is built at a time on a machine, however
// many ask.
func (b Toolbox) built(ctx context.Context, t Tool) (string, error) {
	r, ok := recipes[t]
	if !ok {
		return "", fmt.Errorf("tool: must be one of %v, was %q", Tools, t)
	}
	folder, err := b.folder()
	if err != nil {
		return "", err
	}
	sources, err := b.sources()
	if err != nil {
		return "", err
	}
	v, err := r.version(ctx, sources)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t, err)
	}
	file := filepath.Join(folder, fmt.Sprintf("%s-%s-%s", t, v.name, v.key))
	if present(file) {
		return file, nil
	}
	unlock, err := b.wait(ctx, folder)
	if err != nil {
		return "", fmt.Errorf("%s: %w", t, err)
	}
	defer unlock()
	if present(file) {
		return file, nil
	}
	if err := b.build(ctx, t, v, file); err != nil {
		return "", fmt.Errorf("build %s %s: %w", t, v.name, err)
	}
	return file, clear(folder, time.Now())
}

// CacheFolder is where what is built, and labs that no one named a folder for, are kept: the folder
// that is named, or CacheVariable's, or one for this user.
func CacheFolder(named string) (string, error) {
	if folder := cmp.Or(named, os.Getenv(CacheVariable)); folder != "" {
		return filepath.Abs(folder)
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w (%s can name a folder)", err, CacheVariable)
	}
	return filepath.Join(user, "plimsoll"), nil
}

// folder makes and returns the folder that tools are kept in.
func (b Toolbox) folder() (string, error) {
	cache, err := CacheFolder(b.Cache)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "tools")
	return folder, os.MkdirAll(folder, 0o755)
}

// present reports whether a tool is there, and notes that it is still used.
func present(file string) bool {
	now := time.Now()
	return os.Chtimes(file, now, now) == nil
}

// keep is how long a tool is kept that no one has used.
const keep = 30 * 24 * time.Hour

// clear removes what has not been used for long: a version takes 50 to 140 MB.
func clear(folder string, now time.Time) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || now.Sub(info.ModTime()) < keep || e.Name() == buildLock {
			continue
		}
		if err := os.Remove(filepath.Join(folder, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// buildLock is the file that is held while something is built.
const buildLock = ".lock"

// wait waits until nothing else is being built.
func (b Toolbox) wait(ctx context.Context, folder string) (unlock func(), err error) {
	for said := false; ; said = true {
		l, err := takeLock(filepath.Join(folder, buildLock))
		if err == nil {
			return func() { _ = l.release() }, nil
		}
		if !errors.Is(err, errTaken) {
			return nil, err
		}
		if !said {
			b.say("waiting for another process that builds tools")
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

func (b Toolbox) say(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

// build builds a tool in place.
func (b Toolbox) build(ctx context.Context, t Tool, v *version, file string) error {
	begun := time.Now()
	part := file + ".part"
	compiled, errs := &packages{}, &bytes.Buffer{}
	compiled.rest = errs
	cmd := exec.CommandContext(ctx, "go", v.arguments(part)...)
	cmd.Dir, cmd.Env, cmd.Stderr = v.folder, v.environment(), compiled
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // lets it clean up
	cmd.WaitDelay = 10 * time.Second
	b.say("building %s %s, once on this machine; this takes minutes", t, v.name)
	done := make(chan struct{})
	go b.follow(t, compiled, begun, done)
	err := cmd.Run()
	close(done)
	if err == nil {
		err = os.Rename(part, file)
	}
	if err != nil {
		_ = os.Remove(part)
		return fmt.Errorf("%w\n%s", err, errs)
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	b.say("built %s %s in %s: %d MB", t, v.name, time.Since(begun).Round(time.Second), info.Size()>>20)
	return nil
}

// follow reports every few seconds how far a build is.
func (b Toolbox) follow(t Tool, compiled *packages, begun time.Time, done <-chan struct{}) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			b.say("building %s: %d packages compiled, %s", t, compiled.count.Load(), time.Since(begun).Round(time.Second))
		}
	}
}

// packages reads what go build -v writes: it counts the packages and keeps the rest.
type packages struct {
	count atomic.Int64
	line  []byte
	rest  io.Writer
}

// Write takes lines in any pieces.
func (p *packages) Write(text []byte) (int, error) {
	p.line = append(p.line, text...)
	for {
		line, after, whole := bytes.Cut(p.line, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		if packagePath.Match(line) {
			p.count.Add(1)
		} else if _, err := fmt.Fprintf(p.rest, "%s\n", line); err != nil {
			return 0, err
		}
		p.line = after
	}
}

var packagePath = regexp.MustCompile(`^[\w.~/-]+$`)

// version is what a tool is built from.
type version struct {
	recipe
	folder string // of its module
	name   string // of its version
	key    string // differs when anything differs that the tool is built from
	least  string // release of Go that the module asks for
}

// ErrNoGo says that there is no Go that could build tools.
var ErrNoGo = errors.New("the lab's tools are built by Go, which was not found or does not work")

// version finds out what a tool would be built from.
func (r recipe) version(ctx context.Context, lab string) (*version, error) {
	v := &version{recipe: r, folder: filepath.Join(lab, filepath.FromSlash(r.folder))}
	mod, err := os.ReadFile(filepath.Join(v.folder, "go.mod"))
	if err != nil {
		return nil, err
	}
	if v.name, err = required(string(mod), r.module); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(v.folder, "go.mod"), err)
	}
	if asked := goLine.FindSubmatch(mod); asked != nil {
		v.least = string(asked[1])
	}
	sum := sha256.New()
	if err := hashFolder(sum, v.folder); err != nil {
		return nil, err
	}
	goes, err := v.goes(ctx)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(sum, "%s %q", goes, v.arguments(""))
	v.key = fmt.Sprintf("%x", sum.Sum(nil)[:6])
	return v, nil
}

// goes is which Go would build the tool, and for what.
func (v *version) goes(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED")
	cmd.Dir, cmd.Env = v.folder, v.environment()
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%w: install Go %s or newer, see https://go.dev/doc/install", ErrNoGo, v.least)
	}
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("%w\n%s", ErrNoGo, bytes.TrimSpace(failed.Stderr))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoGo, err)
	}
	return strings.Join(strings.Fields(string(out)), " "), nil
}

// arguments are what go is asked to build the tool.
func (v *version) arguments(into string) []string {
	link := "-s -w"
	for _, n := range v.names {
		link += " -X " + fmt.Sprintf(n, v.name)
	}
	return []string{"build", "-v", "-trimpath", "-mod=readonly", "-buildvcs=false", "-tags=" + v.tags, "-ldflags=" + link, "-o", into, v.pkg}
}

// environment is this process's without what would mix other modules into the build. No tool needs
// C, so that it is the same one whether there is a compiler for it.
func (v *version) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "GOFLAGS=") })
	return append(env, "GOWORK=off", "CGO_ENABLED=0")
}

// required is the version of a module that a go.mod requires.
func required(mod, module string) (string, error) {
	line := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` (v\S+)`)
	m := line.FindStringSubmatch(mod)
	if m == nil {
		return "", fmt.Errorf("%s is not required", module)
	}
	return m[1], nil
}

// goLine is the line of a go.mod with the least release of Go.
var goLine = regexp.MustCompile(`(?m)^go (\S+)`)

// hashFolder adds the files of a folder, by name.
func hashFolder(sum io.Writer, folder string) error {
	return eachSource(folder, func(name string, text []byte) error {
		_, err := fmt.Fprintf(sum, "%s %d\n%s", name, len(text), text)
		return err
	})
}

// eachSource reads what a module in a folder is built from, by name.
func eachSource(folder string, read func(name string, text []byte) error) error {
	return filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(name, "_test.go") {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		return read(filepath.ToSlash(rel), text)
	})
}

const (
	ourModule = "github.com/plimsoll/plimsoll"
	labFolder = "testbed/lab"
)

// ErrNoCheckout says that there is no source tree to build tools from.
var ErrNoCheckout = errors.New("the lab's tools are built from a checkout of " + ourModule + ", which was not found")

// findCheckout returns the root of our source tree: the one named, or the nearest one upwards.
func findCheckout(named string) (string, error) {
	if named != "" {
		if !isCheckout(named) {
			return "", fmt.Errorf("%w in %s", ErrNoCheckout, named)
		}
		return filepath.Abs(named)
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if isCheckout(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%w in or above %s", ErrNoCheckout, here)
		}
	}
}

func isCheckout(dir string) bool {
	mod, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil || !strings.HasPrefix(string(mod), "module "+ourModule+"\n") {
		return false
	}
	_, err = os.Stat(filepath.Join(dir, filepath.FromSlash(labFolder), "controlplane", "go.mod"))
	return err == nil
}
