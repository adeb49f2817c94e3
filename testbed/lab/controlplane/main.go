// Controlplane runs etcd, kube-apiserver, kube-controller-manager and kube-scheduler in one
// process, on loopback, with keys of its own and everything in one folder. It is the control plane
// of Plimsoll's lab: the servers are Kubernetes' own, only the way they are started is not.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"k8s.io/klog/v2"
)

// request is what the command line asks for.
type request struct {
	data      string
	port      int
	users     users
	leash     bool
	verbosity string

	apiserver, manager, scheduler list
}

func main() {
	var ask request
	flag.StringVar(&ask.data, "data", "", "the `folder` that everything is kept in")
	flag.IntVar(&ask.port, "port", 0, "the `port` of the API server on 127.0.0.1; 0 takes a free one")
	flag.Var(&ask.users, "user", "write NAME.kubeconfig for a user who is in these groups, as `NAME=GROUP,GROUP`; can be repeated")
	flag.BoolVar(&ask.leash, "leash", false, "stop when standard input ends, as it does when the process that started this one dies")
	flag.StringVar(&ask.verbosity, "v", "0", "how much the servers log, as a `level` of klog")
	flag.Var(&ask.apiserver, "apiserver-arg", "an `argument` for kube-apiserver; can be repeated")
	flag.Var(&ask.manager, "controller-manager-arg", "an `argument` for kube-controller-manager; can be repeated")
	flag.Var(&ask.scheduler, "scheduler-arg", "an `argument` for kube-scheduler; can be repeated")
	flag.Parse()
	if ask.data == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "controlplane: --data must be given, and nothing that is not a flag")
		os.Exit(2)
	}
	if err := ask.run(); err != nil {
		fmt.Fprintln(os.Stderr, "controlplane:", err)
		os.Exit(1)
	}
}

// run serves until it is asked to stop, or one of the servers ends.
func (ask *request) run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // to be asked twice ends it at once
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if ask.leash {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	if err := logAs(ask.verbosity); err != nil {
		return err
	}
	data, err := filepath.Abs(ask.data)
	if err != nil {
		return err
	}
	p, err := newPlane(data, ask.port)
	if err != nil {
		return err
	}
	return p.serve(ctx, ask)
}

// logAs makes the servers log to standard error. Their own logging flags would each set up the
// one logger that they share.
func logAs(verbosity string) error {
	fs := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(fs)
	if err := fs.Set("v", verbosity); err != nil {
		return fmt.Errorf("-v: must be a number, was %q", verbosity)
	}
	return nil
}

// list collects the values of a flag that can be repeated.
type list []string

// Set adds a value.
func (l *list) Set(text string) error { *l = append(*l, text); return nil }

// String is the values.
func (l *list) String() string { return strings.Join(*l, " ") }

// user is a client that gets a kubeconfig.
type user struct {
	name   string
	groups []string
}

type users []user

// Set adds a user.
func (u *users) Set(text string) error {
	name, groups, _ := strings.Cut(text, "=")
	if name == "" || name == admin.name || name != filepath.Base(name) {
		return fmt.Errorf("must be a name other than %s that can name a file, and groups, was %q", admin.name, text)
	}
	if slices.ContainsFunc(*u, func(o user) bool { return o.name == name }) {
		return fmt.Errorf("must name each user once, was %q", text)
	}
	one := user{name: name}
	if groups != "" {
		one.groups = strings.Split(groups, ",")
	}
	*u = append(*u, one)
	return nil
}

// String is the names.
func (u *users) String() string {
	var names []string
	for _, one := range *u {
		names = append(names, one.name)
	}
	return strings.Join(names, " ")
}
