package steer

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/api/v1alpha1"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/connect"
	"github.com/plimsoll/plimsoll/dashboard"
)

// actionsDoor pauses and resumes for users of the page, by their own rights.
type actionsDoor struct {
	api *rest.Config // without a user
	now func() time.Time
}

// NewDoor is the door to an API server. Who asks there is the user of the page alone: what
// Plimsoll has to prove itself by is not taken over.
func NewDoor(cfg *rest.Config, now func() time.Time) *actionsDoor {
	return &actionsDoor{rest.AnonymousClientConfig(cfg), now}
}

// action is what is to be done.
type action struct {
	Action    string `json:"action"` // pause or resume
	Kind      string `json:"kind"`   // WorkloadAutoscaler or VMPool
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// For is how long a pause is, such as 2h; empty is until it is resumed.
	For string `json:"for,omitempty"`
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
	change, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": a.annotations(user, length, d.now())}})
	if err != nil {
		return nil, err
	}
	after, err := at(client, a.Kind, a.Namespace).Patch(ctx, a.Name, types.MergePatchType, change, metav1.PatchOptions{FieldManager: "plimsoll-pause"})
	if err != nil {
		return nil, refusedBy(err)
	}
	return asLeft(after), nil
}

// readAction reads an action, and how long it is.
func readAction(text []byte) (a action, length time.Duration, err error) {
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&a); err != nil {
		return a, 0, fmt.Errorf("action: %w", err)
	}
	pool := a.Kind == v1alpha1.KindVMPool
	switch {
	case a.Action != "pause" && a.Action != "resume":
		return a, 0, fmt.Errorf("action: must be pause or resume, was %q", a.Action)
	case !pool && a.Kind != v1alpha1.KindWorkloadAutoscaler:
		return a, 0, fmt.Errorf("kind: must be %s or %s, was %q", v1alpha1.KindWorkloadAutoscaler, v1alpha1.KindVMPool, a.Kind)
	case pool && a.Namespace != "":
		return a, 0, fmt.Errorf("namespace: must be omitted, for a VMPool is in none, was %q", a.Namespace)
	case a.For != "" && a.Action == "resume":
		return a, 0, fmt.Errorf("for: must be omitted with resume, was %q", a.For)
	}
	if _, err := cli.ParseName(a.Name); err != nil {
		return a, 0, fmt.Errorf("name: %w", err)
	}
	if _, err := cli.ParseNamespace(a.Namespace); !pool && err != nil {
		return a, 0, fmt.Errorf("namespace: %w", err)
	}
	if a.For != "" {
		if length, err = cli.Positive(cli.ParseDuration)(a.For); err != nil {
			return a, 0, fmt.Errorf("for: %w", err)
		}
	}
	return a, length, nil
}

// annotations are what the verbs pause and resume write.
func (a *action) annotations(user string, length time.Duration, now time.Time) map[string]*string {
	if a.Action == "resume" {
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

// may asks whether the user may do it.
func (a *action) may(ctx context.Context, client dynamic.Interface, user string) error {
	of := autoscalerResource
	if a.Kind == v1alpha1.KindVMPool {
		of = poolResource
	}
	attributes := map[string]any{"group": of.Group, "version": of.Version, "resource": of.Resource, "verb": "patch", "namespace": a.Namespace, "name": a.Name}
	review := reviewOf(accessReview, "SelfSubjectAccessReview", map[string]any{"resourceAttributes": attributes})
	got, err := client.Resource(accessReview).Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if allowed, _, _ := unstructured.NestedBool(got.Object, "status", "allowed"); !allowed {
		why, _, _ := unstructured.NestedString(got.Object, "status", "reason")
		return apierrors.NewForbidden(of.GroupResource(), a.Name, fmt.Errorf("%s may not patch it: %s", user, cmp.Or(why, "no role allows it")))
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
	}
	return dashboard.Refuse(http.StatusBadGateway, err)
}
