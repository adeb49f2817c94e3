package steer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
)

// Where our own kinds are.
var (
	autoscalerResource = v1alpha1.GroupVersion.WithResource("workloadautoscalers")
	poolResource       = v1alpha1.GroupVersion.WithResource("vmpools")
)

// NewPause returns the verb pause.
func NewPause(env *cli.Env) *cobra.Command {
	var ask pauseQuestion
	cmd := &cobra.Command{
		Use:   "pause WORKLOAD | --pool NAME | --all",
		Short: "Pause scaling of workloads and pools",
		Long: `Pause one workload, one pool or everything, for a time or until plimsoll resume. Plimsoll still decides, and reports
what it would do. --direction up pauses only scale-up: nothing is added, and scale-down goes on. --direction down
pauses only scale-down. --replicas scales a workload to that number, regardless of its bounds, and keeps it there.

A workload is named as its WorkloadAutoscaler. The command writes annotations, which kubectl can write as well:
plimsoll.dev/paused, plimsoll.dev/paused-replicas, plimsoll.dev/paused-until and plimsoll.dev/paused-by.

--all is every workload and every pool. --all with --namespace is the workloads of that namespace, and no pool.`,
		Example: "  plimsoll pause web -n shop --for 2h\n  plimsoll pause web -n shop --replicas 3\n  plimsoll pause --pool workers --direction down\n" +
			"  plimsoll pause --all --for 30m\n  plimsoll pause --all -n shop --for 30m",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ask.check(cmd, args); err != nil {
				return cli.SeeHelp(cmd, err)
			}
			switch {
			case ask.replicas != nil && ask.workload == "":
				return cli.SeeHelp(cmd, cli.Misused("--replicas: must be given with one workload only, was %d", *ask.replicas))
			case ask.replicas != nil && ask.direction != "":
				return cli.SeeHelp(cmd, cli.Misused("--replicas: must be omitted with --direction, was %d with --direction %s", *ask.replicas, ask.direction))
			}
			return ask.write(cmd.Context(), env, ask.pause(env))
		},
	}
	ask.flags(cmd)
	cli.AddFlag(cmd, &ask.length, cli.Positive(cli.ParseDuration), "for", "duration", "", "end the pause after this time, such as 2h")
	cli.AddFlag(cmd, &ask.direction, cli.OneOf(v1alpha1.PauseUp, v1alpha1.PauseDown), "direction", "way", "", "pause only scale-up (up) or only scale-down (down)")
	cli.AddFlag(cmd, &ask.replicas, parseReplicas, "replicas", "number", "", "scale a workload to this number of replicas, and keep it there")
	return cmd
}

// NewResume returns the verb resume.
func NewResume(env *cli.Env) *cobra.Command {
	var ask pauseQuestion
	cmd := &cobra.Command{
		Use:   "resume WORKLOAD | --pool NAME | --all",
		Short: "Resume what was paused",
		Long: `Resume one workload, one pool or everything. --all with --namespace resumes the workloads of that namespace.

--pool also releases machines that the brake holds (condition Braked): too many would have gone without a drain. And it
ends what failures led to: the pool takes orders again (PoolPaused), and hosts that rest get machines (HostFailing). It
writes the annotation plimsoll.dev/resumed, which has no effect on machines that are held or fail later.`,
		Example: "  plimsoll resume web -n shop\n  plimsoll resume --pool workers\n  plimsoll resume --all",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ask.check(cmd, args); err != nil {
				return cli.SeeHelp(cmd, err)
			}
			return ask.write(cmd.Context(), env, resumed(ask.pool != "", env.Now()))
		},
	}
	ask.flags(cmd)
	return cmd
}

// resumed is what is written to resume.
func resumed(pool bool, now time.Time) map[string]*string {
	said := map[string]*string{
		v1alpha1.AnnotationPaused: nil, v1alpha1.AnnotationPausedReplicas: nil, v1alpha1.AnnotationPausedUntil: nil, v1alpha1.AnnotationPausedBy: nil,
	}
	if pool {
		said[v1alpha1.AnnotationResumed] = new(now.UTC().Format(time.RFC3339))
	}
	return said
}

// pauseQuestion is what is to be paused or resumed.
type pauseQuestion struct {
	kube      connect.Kube
	workload  string
	pool      string
	all       bool
	namespace string // of the workload, or of all; empty is every one
	length    time.Duration
	direction string
	replicas  *int
	format    cli.Output
}

func (ask *pauseQuestion) flags(cmd *cobra.Command) {
	ask.kube.Add(cmd)
	AddNamespace(cmd, &ask.namespace, "the workload's namespace, or with --all the one whose workloads are meant")
	cli.AddFlag(cmd, &ask.pool, cli.ParseName, "pool", "name", "", "the name of a VMPool, in place of a workload")
	cmd.Flags().BoolVar(&ask.all, "all", false, "all workloads and all pools; with --namespace its workloads only")
	cli.AddOutput(cmd, &ask.format)
}

// AddNamespace gives a command the flag that says in which namespace a workload is.
func AddNamespace(cmd *cobra.Command, into *string, usage string) {
	cli.AddShortFlag(cmd, into, cli.ParseNamespace, "namespace", "n", "namespace", metav1.NamespaceDefault, usage)
}

// WorkloadOf takes a workload's name apart, which may say its namespace in place of the flag.
func WorkloadOf(cmd *cobra.Command, text, flag string) (namespace, name string, err error) {
	namespace, name, both := strings.Cut(text, "/")
	if !both {
		namespace, name = flag, text
	}
	_, wrongSpace := cli.ParseNamespace(namespace)
	_, wrongName := cli.ParseName(name)
	switch {
	case wrongSpace != nil || wrongName != nil:
		return "", "", cli.Misused("workload: must be a name, or a namespace and a name such as shop/web, was %q", text)
	case both && cmd.Flags().Changed("namespace") && namespace != flag:
		return "", "", cli.Misused("--namespace: must be omitted or be that of workload %s, was %q", text, flag)
	}
	return namespace, name, nil
}

// check wants one thing to be named, and nothing beside it that says otherwise.
func (ask *pauseQuestion) check(cmd *cobra.Command, args []string) (err error) {
	named := len(args)
	if ask.pool != "" {
		named++
	}
	if ask.all {
		named++
	}
	if named != 1 {
		return cli.Misused("one workload, --pool or --all must be given, was given %d of them", named)
	}
	switch given := cmd.Flags().Changed("namespace"); {
	case ask.pool != "" && given:
		return cli.Misused("--namespace: must be omitted with --pool, for a VMPool is in none, was %q", ask.namespace)
	case ask.all && !given:
		ask.namespace = metav1.NamespaceAll
	case len(args) == 1:
		ask.namespace, ask.workload, err = WorkloadOf(cmd, args[0], ask.namespace)
	}
	return err
}

// pause is what is to be written.
func (ask *pauseQuestion) pause(env *cli.Env) map[string]*string {
	value, by := cmp.Or(ask.direction, "true"), cmp.Or(env.Getenv("USER"), "plimsoll pause")
	said := map[string]*string{
		v1alpha1.AnnotationPaused: &value, v1alpha1.AnnotationPausedReplicas: nil, v1alpha1.AnnotationPausedBy: &by, v1alpha1.AnnotationPausedUntil: nil,
	}
	if ask.replicas != nil {
		said[v1alpha1.AnnotationPaused], said[v1alpha1.AnnotationPausedReplicas] = nil, new(strconv.Itoa(*ask.replicas))
	}
	if ask.length > 0 {
		until := env.Now().Add(ask.length).UTC().Format(time.RFC3339)
		said[v1alpha1.AnnotationPausedUntil] = &until
	}
	return said
}

// parseReplicas reads a number of replicas, of which 0 is one.
func parseReplicas(text string) (*int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return nil, fmt.Errorf("must be a number of replicas such as 3, was %q", text)
	}
	return &n, nil
}

// pausedObject is an object as it was left.
type pausedObject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Mode      string `json:"mode"`
	Paused    string `json:"paused,omitempty"`
	Replicas  string `json:"replicas,omitempty"` // that it is fixed at
	Until     string `json:"until,omitempty"`
	By        string `json:"by,omitempty"`
}

// write writes annotations on what is meant, and shows what came of it. An object that is refused
// keeps none of the others from being paused: in an emergency most is better than some.
func (ask *pauseQuestion) write(ctx context.Context, env *cli.Env, said map[string]*string) error {
	left := []pausedObject{}
	err := ask.kube.Ask(ctx, env, func(ctx context.Context, client dynamic.Interface) error {
		meant, err := ask.meant(ctx, client)
		if err != nil {
			return err
		}
		var failed []error
		for i, o := range meant {
			after, err := annotate(ctx, at(client, o.GetKind(), o.GetNamespace()), o.GetName(), said)
			switch {
			case err == nil:
				left = append(left, asLeft(after))
			case ask.all && apierrors.IsNotFound(err) && !unknownKind(err):
				// It was deleted since it was listed.
			case ctx.Err() != nil || unreachable(err):
				if left := len(meant) - i; len(meant) > 1 {
					err = fmt.Errorf("%s %s and %d others were not written: %w", o.GetKind(), o.GetName(), left-1, err)
				}
				return errors.Join(append(failed, answered(err))...)
			default:
				failed = append(failed, answered(err))
			}
		}
		return errors.Join(failed...)
	})
	if err != nil && len(left) == 0 {
		return err
	}
	return errors.Join(err, ask.format.Print(env.Stdout, left, func(w io.Writer) { pausedTable(w, left) }))
}

// annotate writes what pauses or resumes an object.
func annotate(ctx context.Context, of dynamic.ResourceInterface, name string, said map[string]*string) (*unstructured.Unstructured, error) {
	key := ""
	if said[v1alpha1.AnnotationResumed] != nil {
		key = v1alpha1.AnnotationResumed
	}
	return patch(ctx, of, name, "plimsoll-pause", key, map[string]any{"metadata": map[string]any{"annotations": said}})
}

func at(client dynamic.Interface, kind, namespace string) dynamic.ResourceInterface {
	if kind == v1alpha1.KindVMPool {
		return client.Resource(poolResource)
	}
	return client.Resource(autoscalerResource).Namespace(namespace)
}

// meant are the objects that are named.
func (ask *pauseQuestion) meant(ctx context.Context, client dynamic.Interface) ([]unstructured.Unstructured, error) {
	switch {
	case ask.workload != "":
		return one(AutoscalerNamed(ctx, client, ask.namespace, ask.workload))
	case ask.pool != "":
		o, err := at(client, v1alpha1.KindVMPool, "").Get(ctx, ask.pool, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !unknownKind(err) {
			return nil, cli.WithHint("kubectl get vmpools lists them", fmt.Errorf("there is no VMPool %s", ask.pool))
		}
		return one(o, answered(err))
	}
	return ask.everything(ctx, client)
}

// everything is all pools, whose machines are the costliest to undo, and all workloads, or the
// workloads of a namespace. One without any is likely a slip.
func (ask *pauseQuestion) everything(ctx context.Context, client dynamic.Interface) ([]unstructured.Unstructured, error) {
	lists := []dynamic.ResourceInterface{client.Resource(autoscalerResource).Namespace(ask.namespace)}
	if ask.namespace == metav1.NamespaceAll {
		lists = append([]dynamic.ResourceInterface{client.Resource(poolResource)}, lists...)
	}
	var all []unstructured.Unstructured
	for _, resource := range lists {
		list, err := resource.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, answered(err)
		}
		all = append(all, list.Items...)
	}
	if len(all) == 0 && ask.namespace != metav1.NamespaceAll {
		return nil, cli.WithHint("kubectl get wla -A lists them", fmt.Errorf("there is no WorkloadAutoscaler in namespace %s", ask.namespace))
	}
	return all, nil
}

func one(o *unstructured.Unstructured, err error) ([]unstructured.Unstructured, error) {
	if err != nil {
		return nil, err
	}
	return []unstructured.Unstructured{*o}, nil
}

// AutoscalerNamed reads a WorkloadAutoscaler.
func AutoscalerNamed(ctx context.Context, client dynamic.Interface, namespace, name string) (*unstructured.Unstructured, error) {
	o, err := at(client, v1alpha1.KindWorkloadAutoscaler, namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !unknownKind(err) {
		return nil, cli.WithHint("kubectl get wla -A lists them", fmt.Errorf("there is no WorkloadAutoscaler %s in namespace %s", name, namespace))
	}
	return o, answered(err)
}

// answered distinguishes an error that the API server answered with from one of not reaching it.
func answered(err error) error {
	switch {
	case unknownKind(err):
		return cli.WithHint("plimsoll manifests crds | kubectl apply --server-side -f - installs them", errors.New("the cluster does not know the kinds WorkloadAutoscaler and VMPool"))
	case unreachable(err):
		return cli.WithCode(cli.ExitUnreachable, err)
	}
	return err
}

// unreachable reports whether the API server did not answer, not even with an error.
func unreachable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status)
}

// unknownKind distinguishes a kind that is not installed from an object that is not there: the API
// server answers both with 404.
func unknownKind(err error) bool {
	return apierrors.IsNotFound(err) && strings.Contains(err.Error(), "the server could not find the requested resource")
}

func asLeft(o *unstructured.Unstructured) pausedObject {
	said := o.GetAnnotations()
	mode, _, _ := unstructured.NestedString(o.Object, "spec", "mode")
	return pausedObject{
		Kind: o.GetKind(), Namespace: o.GetNamespace(), Name: o.GetName(), Mode: mode,
		Paused: said[v1alpha1.AnnotationPaused], Replicas: said[v1alpha1.AnnotationPausedReplicas], Until: said[v1alpha1.AnnotationPausedUntil], By: said[v1alpha1.AnnotationPausedBy],
	}
}

func pausedTable(w io.Writer, all []pausedObject) {
	fmt.Fprintf(w, "KIND\tNAME\tMODE\tPAUSED\tUNTIL\tBY\n")
	for _, o := range all {
		name, paused := o.Name, o.Paused
		if o.Namespace != "" {
			name = o.Namespace + "/" + name
		}
		switch {
		case paused == "true":
			paused = "yes"
		case paused == v1alpha1.PauseUp:
			paused = "growing"
		case paused == v1alpha1.PauseDown:
			paused = "shrinking"
		case o.Replicas != "":
			paused = "at " + o.Replicas
		case paused == "" && o.Mode == string(v1alpha1.ModePaused):
			paused = "by its mode"
		case paused == "":
			paused = "no"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", o.Kind, name, cmp.Or(o.Mode, "-"), paused, cmp.Or(o.Until, "-"), cmp.Or(o.By, "-"))
	}
}
