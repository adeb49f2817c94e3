package steer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/dashboard"
)

// actionsDoor pauses, resumes and answers proposals for users of the page, by their own rights.
type actionsDoor struct {
	api *rest.Config // without a user
	now func() time.Time
}

// NewDoor is the door to an API server. Who asks there is the user of the page alone: what
// Plimsoll has to prove itself by is not taken over.
func NewDoor(cfg *rest.Config, now func() time.Time) *actionsDoor {
	return &actionsDoor{rest.AnonymousClientConfig(cfg), now}
}

// What users of the page can do.
const (
	actionPause   = "pause"
	actionResume  = "resume"
	actionList    = "list" // the proposals that wait for an answer
	actionApprove = "approve"
	actionReject  = "reject"
)

// action is what is to be done.
type action struct {
	Action    string `json:"action"`
	Kind      string `json:"kind"` // one of actionKinds
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// For is how long a pause is, such as 2h; empty is until it is resumed.
	For string `json:"for,omitempty"`
	// Note says why a proposal is approved or rejected.
	Note string `json:"note,omitempty"`
}

// Do does it, if the token's user may.
func (d *actionsDoor) Do(ctx context.Context, token string, text []byte) (any, error) {
	a, length, err := readAction(text)
	if err != nil {
		return nil, dashboard.Refuse(http.StatusBadRequest, err)
	}
	cfg := rest.CopyConfig(d.api)
	cfg.BearerToken = token
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connect.Patience)
	defer cancel()
	user, err := whoIs(ctx, client)
	if err != nil {
		return nil, refusedBy(err)
	}
	if err := a.may(ctx, client, user); err != nil {
		return nil, refusedBy(err)
	}
	do := d.annotate
	if a.Kind == v1alpha1.KindScalingProposal {
		do = d.answer
	}
	got, err := do(ctx, client, &a, user, length)
	if err != nil {
		return nil, refusedBy(err)
	}
	return got, nil
}

// annotate pauses or resumes.
func (d *actionsDoor) annotate(ctx context.Context, client dynamic.Interface, a *action, user string, length time.Duration) (any, error) {
	after, err := annotate(ctx, at(client, a.Kind, a.Namespace), a.Name, a.annotations(user, length, d.now()))
	if err != nil {
		return nil, err
	}
	return asLeft(after), nil
}

// answer approves or rejects a proposal, or lists those that wait.
func (d *actionsDoor) answer(ctx context.Context, client dynamic.Interface, a *action, user string, _ time.Duration) (any, error) {
	say := answer{namespace: a.Namespace, name: a.Name, approval: v1alpha1.Approval{Decision: v1alpha1.Approved, By: user, Note: a.Note}}
	switch a.Action {
	case actionList:
		waiting, err := say.give(ctx, client, d.now())
		return append([]v1alpha1.ScalingProposal{}, waiting...), err // none is [] in JSON
	case actionReject:
		say.approval.Decision = v1alpha1.Rejected
	}
	p, err := readProposal(ctx, client, a.Namespace, a.Name)
	if err != nil {
		return nil, err
	}
	return say.to(ctx, client, p, d.now())
}

// actionKinds are what each action is done to.
var actionKinds = map[string][]string{
	actionPause:   {v1alpha1.KindWorkloadAutoscaler, v1alpha1.KindVMPool},
	actionResume:  {v1alpha1.KindWorkloadAutoscaler, v1alpha1.KindVMPool},
	actionList:    {v1alpha1.KindScalingProposal},
	actionApprove: {v1alpha1.KindScalingProposal},
	actionReject:  {v1alpha1.KindScalingProposal},
}

// readAction reads an action, and how long it is.
func readAction(text []byte) (a action, length time.Duration, err error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&a); err != nil {
		return a, 0, fmt.Errorf("action: %w", err)
	}
	if err := a.check(); err != nil {
		return a, 0, err
	}
	if a.For != "" {
		if length, err = cli.Positive(cli.ParseDuration)(a.For); err != nil {
			return a, 0, fmt.Errorf("for: %w", err)
		}
	}
	return a, length, nil
}

// check refuses keys that do not go together.
func (a *action) check() error {
	kinds, known := actionKinds[a.Action]
	list, pool := a.Action == actionList, a.Kind == v1alpha1.KindVMPool
	switch {
	case !known:
		return fmt.Errorf("action: must be pause, resume, list, approve or reject, was %q", a.Action)
	case !slices.Contains(kinds, a.Kind):
		return fmt.Errorf("kind: must be %s to %s, was %q", strings.Join(kinds, " or "), a.Action, a.Kind)
	case pool && a.Namespace != "":
		return fmt.Errorf("namespace: must be omitted, for a VMPool is in none, was %q", a.Namespace)
	case list && a.Name != "":
		return fmt.Errorf("name: must be omitted with list, was %q", a.Name)
	case a.For != "" && a.Action != actionPause:
		return fmt.Errorf("for: must be omitted with %s, was %q", a.Action, a.For)
	case a.Note != "" && a.Action != actionApprove && a.Action != actionReject:
		return fmt.Errorf("note: must be omitted with %s, was %q", a.Action, a.Note)
	}
	if _, err := cli.ParseName(a.Name); !list && err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if _, err := cli.ParseNamespace(a.Namespace); !pool && err != nil && !(list && a.Namespace == "") {
		return fmt.Errorf("namespace: %w", err)
	}
	return nil
}

// annotations are what the verbs pause and resume write.
func (a *action) annotations(user string, length time.Duration, now time.Time) map[string]*string {
	if a.Action == actionResume {
		return resumed(a.Kind == v1alpha1.KindVMPool, now)
	}
	value := "true"
	said := map[string]*string{
		v1alpha1.AnnotationPaused: &value, v1alpha1.AnnotationPausedReplicas: nil, v1alpha1.AnnotationPausedBy: &user, v1alpha1.AnnotationPausedUntil: nil,
	}
	if length > 0 {
		said[v1alpha1.AnnotationPausedUntil] = new(now.Add(length).UTC().Format(time.RFC3339))
	}
	return said
}

var (
	selfReview   = schema.GroupVersionResource{Group: "authentication.k8s.io", Version: "v1", Resource: "selfsubjectreviews"}
	accessReview = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
)

// whoIs is the name of the client's user.
func whoIs(ctx context.Context, client dynamic.Interface) (string, error) {
	got, err := client.Resource(selfReview).Create(ctx, reviewOf(selfReview, "SelfSubjectReview", nil), metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	name, _, _ := unstructured.NestedString(got.Object, "status", "userInfo", "username")
	if name == "" || name == "system:anonymous" {
		return "", apierrors.NewUnauthorized("the cluster does not know this token")
	}
	return name, nil
}

// actionResources are where those kinds are.
var actionResources = map[string]schema.GroupVersionResource{
	v1alpha1.KindWorkloadAutoscaler: autoscalerResource, v1alpha1.KindVMPool: poolResource, v1alpha1.KindScalingProposal: proposalResource,
}

// may asks whether the user may do it.
func (a *action) may(ctx context.Context, client dynamic.Interface, user string) error {
	of, verb, what, otherwise := actionResources[a.Kind], "patch", "it", "no role allows it"
	if a.Action == actionList {
		verb, what = "list", "them in "+cmp.Or(a.Namespace, "every namespace")
		if a.Namespace == "" {
			otherwise += "; a namespace may be named"
		}
	}
	attributes := map[string]any{"group": of.Group, "version": of.Version, "resource": of.Resource, "verb": verb, "namespace": a.Namespace, "name": a.Name}
	review := reviewOf(accessReview, "SelfSubjectAccessReview", map[string]any{"resourceAttributes": attributes})
	got, err := client.Resource(accessReview).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if allowed, _, _ := unstructured.NestedBool(got.Object, "status", "allowed"); !allowed {
		why, _, _ := unstructured.NestedString(got.Object, "status", "reason")
		return apierrors.NewForbidden(of.GroupResource(), a.Name, fmt.Errorf("%s may not %s %s: %s", user, verb, what, cmp.Or(why, otherwise)))
	}
	return nil
}

func reviewOf(of schema.GroupVersionResource, kind string, spec map[string]any) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": of.GroupVersion().String(), "kind": kind}}
	if spec != nil {
		o.Object["spec"] = spec
	}
	return o
}

// refusedBy is an error of the API server with the code that the page is to have.
func refusedBy(err error) error {
	switch {
	case apierrors.IsUnauthorized(err):
		return dashboard.Refuse(http.StatusUnauthorized, fmt.Errorf("the cluster does not know this token"))
	case apierrors.IsForbidden(err):
		return dashboard.Refuse(http.StatusForbidden, err)
	case apierrors.IsNotFound(err):
		return dashboard.Refuse(http.StatusNotFound, err)
	case apierrors.IsInvalid(err):
		return dashboard.Refuse(http.StatusBadRequest, err)
	case errors.As(err, new(noAnswer)), apierrors.IsConflict(err):
		return dashboard.Refuse(http.StatusConflict, err)
	}
	return dashboard.Refuse(http.StatusBadGateway, err)
}
