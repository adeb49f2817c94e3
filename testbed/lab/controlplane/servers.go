package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	basecompatibility "k8s.io/component-base/compatibility"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	manageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

// The servers are started as their commands start them, but for what belongs to a process as a
// whole: signals, logging and the version.

//go:embed audit-policy.yaml
var auditPolicy []byte

// eager clients do not hold themselves back: with the servers' own limits, which spare an API
// server that many share, the controllers alone take five seconds to start.
var eager = []string{"--kube-api-qps=1000", "--kube-api-burst=2000"}

// startAPIServer starts the API server on the port that was taken.
func (p *plane) startAPIServer(s *server, etcd string, more list) error {
	args, err := p.apiServerArgs(etcd)
	if err != nil {
		return err
	}
	o := apiserveroptions.NewServerRunOptions()
	if err := parse(o.Flags(), o.GenericServerRunOptions.ComponentGlobalsRegistry, append(args, more...)); err != nil {
		return err
	}
	o.SecureServing.Listener = p.listener
	completed, err := o.Complete(s.ctx)
	if err != nil {
		return err
	}
	if err := utilerrors.NewAggregate(completed.Validate()); err != nil {
		return err
	}
	s.run("kube-apiserver", func(ctx context.Context) error { return apiserver.Run(ctx, completed) })
	return nil
}

// apiServerArgs makes the API server's keys and files, and the arguments that name them.
func (p *plane) apiServerArgs(etcd string) ([]string, error) {
	if err := p.pki.server("apiserver", p.ca, "kubernetes", "kubernetes.default", "kubernetes.default.svc"); err != nil {
		return nil, err
	}
	if _, err := p.pki.privateKey("service-accounts"); err != nil {
		return nil, err
	}
	// API servers behind this one believe it who is asking because of this certificate.
	front, err := p.pki.authority("front-proxy-ca")
	if err != nil {
		return nil, err
	}
	if err := p.pki.client("front-proxy", user{name: "front-proxy"}, front); err != nil {
		return nil, err
	}
	policy := filepath.Join(p.folder, "audit-policy.yaml")
	if err := writeFile(policy, auditPolicy); err != nil {
		return nil, err
	}
	return []string{
		"--etcd-servers=" + etcd, "--etcd-cafile=" + p.pki.cert("ca"),
		"--etcd-certfile=" + p.pki.cert("etcd"), "--etcd-keyfile=" + p.pki.key("etcd"),
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(p.listener.Addr().(*net.TCPAddr).Port),
		"--tls-cert-file=" + p.pki.cert("apiserver"), "--tls-private-key-file=" + p.pki.key("apiserver"),
		"--client-ca-file=" + p.pki.cert("ca"),
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--service-cluster-ip-range=" + serviceRange,
		// Endpoints must not have loopback addresses, so the API server's own get none.
		"--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + p.pki.key("service-accounts"),
		"--service-account-signing-key-file=" + p.pki.key("service-accounts"),
		"--requestheader-client-ca-file=" + p.pki.cert("front-proxy-ca"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + p.pki.cert("front-proxy"), "--proxy-client-key-file=" + p.pki.key("front-proxy"),
		"--audit-policy-file=" + policy, "--audit-log-path=" + filepath.Join(p.folder, "audit.log"),
	}, nil
}

// startControllerManager starts all controllers, each with an account of its own, so that the
// audit log distinguishes the autoscaler from the others.
func (p *plane) startControllerManager(s *server, more list) error {
	o, err := manageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return err
	}
	known, off, aliases := manager.KnownControllers(), manager.ControllersDisabledByDefault(), manager.ControllerAliases()
	flags := o.Flags(known, off, aliases)
	o.ParsedFlags = &flags
	args := []string{
		"--kubeconfig=" + p.kubeconfig("system:kube-controller-manager"), "--use-service-account-credentials=true",
		"--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file=" + p.pki.key("service-accounts"), "--root-ca-file=" + p.pki.cert("ca"),
		"--cluster-signing-cert-file=" + p.pki.cert("ca"), "--cluster-signing-key-file=" + p.pki.key("ca"),
		// It would make this folder where a system has it.
		"--flex-volume-plugin-dir=" + filepath.Join(p.folder, "flexvolumes"),
	}
	args = append(args, eager...)
	if err := parse(flags, o.ComponentGlobalsRegistry, append(args, more...)); err != nil {
		return err
	}
	c, err := o.Config(s.ctx, known, off, aliases)
	if err != nil {
		return err
	}
	s.run("kube-controller-manager", func(ctx context.Context) error { return manager.Run(ctx, c.Complete()) })
	return nil
}

// startScheduler starts the scheduler.
func (p *plane) startScheduler(s *server, more list) error {
	o := scheduleroptions.NewOptions()
	args := []string{"--kubeconfig=" + p.kubeconfig("system:kube-scheduler"), "--leader-elect=false", "--secure-port=0"}
	args = append(args, eager...)
	if err := parse(*o.Flags, o.ComponentGlobalsRegistry, append(args, more...)); err != nil {
		return err
	}
	c, sched, err := scheduler.Setup(s.ctx, o)
	if err != nil {
		return err
	}
	s.run("kube-scheduler", func(ctx context.Context) error { return scheduler.Run(ctx, c, sched) })
	return nil
}

// parse reads a server's arguments. Feature gates are the process's: those of one server apply to
// all.
func parse(sets cliflag.NamedFlagSets, globals basecompatibility.ComponentGlobalsRegistry, args []string) error {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.Usage = func() {}
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, set := range sets.FlagSets {
		fs.AddFlagSet(set)
	}
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q is no flag", fs.Arg(0))
	}
	return globals.Set()
}
