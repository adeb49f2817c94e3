package lab

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// ControlPlane is how the control plane differs from the plain one. Arguments are those of the
// programs of the same name, such as --horizontal-pod-autoscaler-sync-period=5s.
type ControlPlane struct {
	APIServerArgs         []string
	ControllerManagerArgs []string
	SchedulerArgs         []string
}

// ControlPlanePart is the name of the part that every lab has.
const ControlPlanePart = "controlplane"

// Who has a kubeconfig in the control plane's folder. Under these names they are in the audit log.
const (
	adminUser   = "admin"
	kwokUser    = "kwok"
	kubeletUser = "kubelet"
	// readerUser is the API server, to kubelets that it asks.
	readerUser = "kube-apiserver-kubelet-client"
)

// controlPlane is etcd, the API server, the controllers and the scheduler, in one process.
type controlPlane struct {
	cfg  ControlPlane
	port int
}

// Name is the part's name.
func (c *controlPlane) Name() string { return ControlPlanePart }

// Tools are what the part needs.
func (c *controlPlane) Tools() []Tool { return []Tool{ToolControlPlane} }

// kubeconfig is the file of a user.
func (c *controlPlane) kubeconfig(l *Lab, user string) string {
	return filepath.Join(l.data, ControlPlanePart, user+".kubeconfig")
}

// pki is a key or certificate of the control plane.
func (c *controlPlane) pki(l *Lab, name string) string {
	return filepath.Join(l.data, ControlPlanePart, "pki", name)
}

// Start starts the process and waits until pods can be made.
func (c *controlPlane) Start(ctx context.Context, l *Lab) (*Running, error) {
	program, err := l.Tool(ctx, ToolControlPlane)
	if err != nil {
		return nil, err
	}
	folder, err := l.Folder(ControlPlanePart)
	if err != nil {
		return nil, err
	}
	port, err := keptPort(&c.port)
	if err != nil {
		return nil, err
	}
	args := []string{
		"--leash", "--data", folder, "--port", strconv.Itoa(port),
		"--user", kwokUser + "=system:masters", "--user", kubeletUser + "=system:masters", "--user", readerUser,
	}
	args = repeat(args, "--apiserver-arg", []string{
		"--kubelet-client-certificate=" + c.pki(l, "user-"+readerUser+".crt"), "--kubelet-client-key=" + c.pki(l, "user-"+readerUser+".key"),
		"--kubelet-certificate-authority=" + c.pki(l, "ca.crt"), "--kubelet-preferred-address-types=InternalIP",
	})
	args = repeat(args, "--apiserver-arg", c.cfg.APIServerArgs)
	args = repeat(args, "--controller-manager-arg", c.cfg.ControllerManagerArgs)
	args = repeat(args, "--scheduler-arg", c.cfg.SchedulerArgs)
	// The process makes this file when it is ready. One that was killed may have left its own.
	marker := filepath.Join(folder, "ready.json")
	if err := os.Remove(marker); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p := &Process{
		Path: program, Args: args,
		Answers: func(context.Context) error {
			_, err := os.Stat(marker)
			return err
		},
		Endpoints: []Endpoint{{"api", "https://" + loopback(port)}},
	}
	return p.Start(ctx, l, ControlPlanePart)
}

// repeat adds a flag for each value.
func repeat(args []string, flag string, values []string) []string {
	for _, v := range values {
		args = append(args, flag, v)
	}
	return args
}
