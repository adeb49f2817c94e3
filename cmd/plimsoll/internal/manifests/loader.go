package manifests

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/deploy"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/testbed/loader"
)

// loaders are what differs between sites in the manifests of loaders.
type loaders struct {
	namespace, name, image, shape string
	services                      int
	calibrate                     time.Duration
	digits                        int
	memory                        pricing.Bytes // of a request
	cpu                           pricing.MilliCPU
	podMemory                     pricing.Bytes
}

// The usual pod is the published experiments'.
const (
	usualDemand = "50ms"
	usualCPU    = "500m"
	usualMemory = "250MB"
)

func newManifestsLoaderCommand(env *cli.Env) *cobra.Command {
	var v loaders
	cmd := &cobra.Command{
		Use:   "loader",
		Short: "Print load services that use a known amount of CPU for each request",
		Long: `Print Deployments and Services that run 'plimsoll testbed loader': one, or several that call each other. In a chain
each calls the next when its own work is done; in a fan the first calls all others at once.

With --calibrate each pod measures at its start how much work takes that long on its machine. With --digits all pods do
the same work.`,
		Example: "  plimsoll manifests loader | kubectl apply -f -\n" +
			"  plimsoll manifests loader --services 3 --calibrate 20ms | kubectl apply -f -",
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("digits") && !cmd.Flags().Changed("calibrate") {
				v.calibrate = 0
			}
			if cmd.Flags().Changed("shape") && v.services == 1 {
				return cli.SeeHelp(cmd, cli.Misused("--shape: must be omitted with one service, was %s with --services 1", v.shape))
			}
			if err := v.validate(); err != nil {
				return cli.SeeHelp(cmd, cli.Misused("--%s", strings.ReplaceAll(err.Error(), "\n", "\n--")))
			}
			return v.print(env.Stdout, pveapi.Shell(append([]string{"plimsoll"}, env.Args...)...))
		},
	}
	cli.AddFlag(cmd, &v.namespace, cli.ParseNamespace, "namespace", "name", "default", "the namespace that they run in")
	cli.AddFlag(cmd, &v.name, readServiceName, "name", "name", "loader", "the name of the first service; the others get a number")
	cli.AddFlag(cmd, &v.services, cli.AtLeastOne, "services", "number", "1", "how many services there are")
	cli.AddFlag(cmd, &v.shape, readShape, "shape", "shape", "chain", "how several call each other: chain or fan")
	cli.AddFlag(cmd, &v.calibrate, cli.Positive(cli.ParseDuration), "calibrate", "duration", usualDemand, "the CPU time of a request")
	cli.AddFlag(cmd, &v.digits, cli.AtLeastOne, "digits", "number", "", "decimals of π for every request, in place of --calibrate")
	cli.AddFlag(cmd, &v.memory, pricing.ParseBytes, "memory", "size", "0MB", "memory that every request holds until it is answered")
	cli.AddFlag(cmd, &v.cpu, cli.Positive(pricing.ParseMilliCPU), "pod-cpu", "cores", usualCPU, "what a pod requests, and may use")
	cli.AddFlag(cmd, &v.podMemory, cli.Positive(pricing.ParseBytes), "pod-memory", "size", usualMemory, "what a pod requests, and may use")
	cli.AddFlag(cmd, &v.image, cli.ParseImage, "image", "image", "", "the image, in place of the release's")
	return cmd
}

// readServiceName reads what a Service may be called, which may not begin with a digit.
func readServiceName(text string) (string, error) {
	if !serviceName.MatchString(text) || len(text) > 63 {
		return "", fmt.Errorf("must be a name of at most 63 lower-case letters, digits and '-' that begins with a letter, was %q", text)
	}
	return text, nil
}

var serviceName = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)

func readShape(text string) (string, error) {
	if known := []string{"chain", "fan"}; !slices.Contains(known, text) {
		return "", fmt.Errorf("must be one of %s, was %q", strings.Join(known, ", "), text)
	}
	return text, nil
}

// The limits of what is printed: a request goes through no more loaders than they let it, and Go's
// own memory is not far from the least pod's.
const (
	mostServices  = 32
	leastPodBytes = 64 * pricing.MB
)

// validate says everything that is wrong, with what the pods themselves would refuse.
func (v *loaders) validate() error {
	pod := loader.Config{
		Work: loader.Work{Digits: v.digits, Memory: v.memory}, Calibrate: v.calibrate, AtOnce: 1, CallTimeout: time.Second,
	}
	faults := []error{pod.Validate()}
	if v.services > mostServices {
		faults = append(faults, fmt.Errorf("services: must be at most %d, was %d", mostServices, v.services))
	}
	if last := v.service(v.services); len(last) > 63 {
		faults = append(faults, fmt.Errorf("name: must leave the last, %s, at most 63 letters, was %q", last, v.name))
	}
	if v.podMemory < leastPodBytes+v.memory {
		faults = append(faults, fmt.Errorf("pod-memory: must be %s or more, and a request's besides, was %s", leastPodBytes, v.podMemory))
	}
	return errors.Join(faults...)
}

// service is what the nth is called, from 1.
func (v *loaders) service(n int) string {
	if n == 1 {
		return v.name
	}
	return fmt.Sprintf("%s-%d", v.name, n)
}

// loaderService is one of the services.
type loaderService struct {
	Name     string
	Calls    []string
	Parallel bool
}

// all are the services, each with those that it calls.
func (v *loaders) all() []loaderService {
	services := make([]loaderService, v.services)
	for i := range services {
		s := &services[i]
		s.Name = v.service(i + 1)
		caller := &services[0]
		if v.shape == "chain" && i > 0 {
			caller = &services[i-1]
		}
		if i > 0 {
			caller.Calls = append(caller.Calls, fmt.Sprintf("http://%s.%s/", s.Name, v.namespace))
		}
	}
	services[0].Parallel = v.shape == "fan" && v.services > 1
	return services
}

func (v *loaders) print(w io.Writer, command string) error {
	plimsoll, err := deploy.Rendered(deploy.Recommend)
	if err != nil {
		return err
	}
	work, image := fmt.Sprintf("--digits=%d", v.digits), v.image
	if v.calibrate > 0 {
		work = "--calibrate=" + v.calibrate.String()
	}
	if image == "" { // the one that Plimsoll itself is installed with
		image = plimsoll.Image()
	}
	memory := ""
	if v.memory > 0 {
		memory = v.memory.String()
	}
	t, err := template.ParseFS(deploy.Loader, "loader/manifests.yaml")
	if err != nil {
		return err
	}
	return t.Option("missingkey=error").Execute(w, map[string]any{
		"Command": command, "Namespace": v.namespace, "Name": v.name, "Image": image, "Services": v.all(), "Work": work, "Memory": memory,
		"CPU":        resource.NewMilliQuantity(int64(v.cpu), resource.DecimalSI).String(),
		"PodMemory":  resource.NewQuantity(int64(v.podMemory), resource.DecimalSI).String(),
		"SoftMemory": fmt.Sprintf("%dB", int64(v.podMemory)*4/5),
	})
}
