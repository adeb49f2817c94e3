package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plimsoll/plimsoll/api/printable"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/copies"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/kept"
	"github.com/plimsoll/plimsoll/nodescaler/kube/internal/sight"
)

// Types of conditions of CapacityBuffers, and reasons that are set here. The first of these is
// cluster-autoscaler's.
const (
	bufferReady        = "ReadyForProvisioning"
	bufferProvisioning = "Provisioning"

	reasonAttributesSet = "AttributesSetSuccessfully"
	reasonBufferInvalid = "BufferInvalid"
	reasonRoomKept      = "RoomKept"
	reasonRoomComing    = "RoomComing"
)

// ReportHeadroom writes what became of the CapacityBuffers that the last Observe saw into their
// statuses, where it differs.
func (c *Cluster) ReportHeadroom(ctx context.Context, states []nodescaler.HeadroomState) error {
	seen := c.observed.Load()
	if seen == nil {
		return nil
	}
	byName := make(map[string]*nodescaler.HeadroomState, len(states))
	for i := range states {
		byName[states[i].Name] = &states[i]
	}
	var errs []error
	for _, a := range seen.Buffers {
		errs = append(errs, c.reportBuffer(ctx, a, byName[a.Namespace+"/"+a.Name]))
	}
	return errors.Join(errs...)
}

func (c *Cluster) reportBuffer(ctx context.Context, a *sight.Buffer, state *nodescaler.HeadroomState) error {
	want := verdict(a, state)
	is, err := json.Marshal(a.Status)
	if err != nil {
		return err
	}
	text, err := json.Marshal(want)
	if err != nil {
		return err
	}
	if string(is) == string(text) || !c.reports.due(a.UID, text, is, time.Now()) {
		return nil
	}
	what := fmt.Sprintf("status of CapacityBuffer %s/%s", a.Namespace, a.Name)
	return c.write(ctx, Active, what, func(ctx context.Context) error {
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": a.UID}, "status": json.RawMessage(printable.JSON(text))})
		if err != nil {
			return err
		}
		gvr := schema.GroupVersionResource{Group: copies.BufferGroup, Version: a.Version, Resource: copies.BufferResource}
		_, err = c.copies.Objects.Resource(gvr).Namespace(a.Namespace).Patch(ctx, a.Name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: kept.FieldManager}, "status")
		if err == nil {
			c.reports.wrote(a.UID, text, time.Now())
		}
		return unlessGone(err)
	})
}

// verdict is what its status is to be. Conditions of other types stay.
func verdict(a *sight.Buffer, state *nodescaler.HeadroomState) kept.BufferStatus {
	s := kept.BufferStatus{ProvisioningStrategy: new(kept.ActiveCapacity), Conditions: slices.Clone(a.Status.Conditions)}
	set := func(kind string, status metav1.ConditionStatus, reason, text string) {
		meta.SetStatusCondition(&s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: text, ObservedGeneration: a.Generation})
	}
	if a.Err != nil {
		set(bufferReady, metav1.ConditionFalse, reasonBufferInvalid, a.Err.Error())
		meta.RemoveStatusCondition(&s.Conditions, bufferProvisioning)
		return s
	}
	if a.Template != nil {
		s.PodTemplateRef, s.PodTemplateGeneration = &kept.NameRef{Name: a.Template.Name}, new(a.Template.Generation)
	}
	s.Replicas = new(int32(a.Room.Count))
	set(bufferReady, metav1.ConditionTrue, reasonAttributesSet, "room is kept for its pods")
	if state == nil { // nothing was planned in this step
		return s
	}
	cost := fmt.Sprintf("its part of the machines costs %s/h", state.Rate)
	switch {
	case state.Missing() > 0:
		set(bufferProvisioning, metav1.ConditionFalse, state.Why.Code, fmt.Sprintf("there is no room for %d of %d pods: %s", state.Missing(), state.Wanted, state.Why.Text))
	case state.Coming > 0:
		set(bufferProvisioning, metav1.ConditionTrue, reasonRoomComing, fmt.Sprintf("machines are coming for %d of %d pods; %s", state.Coming, state.Wanted, cost))
	default:
		set(bufferProvisioning, metav1.ConditionTrue, reasonRoomKept, fmt.Sprintf("nodes have room for all %d pods; %s", state.Wanted, cost))
	}
	return s
}
