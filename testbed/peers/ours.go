package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/nodescaler/kube"
	"github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/pricing"
)

// plimsoll has the joint policy plan. What it takes to read the pods is part of it.
func (w *world) plimsoll(context.Context) ([]machine, error) { return w.planFor(nil, w.pods) }

// planFor is what the policy orders for pods beside nodes that are there.
func (w *world) planFor(nodes []*corev1.Node, pods []*corev1.Pod) ([]machine, error) {
	joint, err := policy.New(policy.Spec{Policy: "joint"})
	if err != nil {
		return nil, err
	}
	pools, byName := w.pools()
	s := kube.Read(&kube.Objects{Nodes: nodes, Pods: pods, Volumes: w.volumes})
	s.Pools, s.Now, s.Prices = pools, time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), w.book()
	for _, zone := range zones {
		room := pricing.Resources{CPU: 1_000_000_000, Memory: 1_000_000 * pricing.GiB}
		s.Hosts = append(s.Hosts, nodescaler.Host{Host: pricing.Host{Name: zone, Room: room}, Online: true})
	}
	plan := joint.Decide(nodescaler.NewIndex(&s))
	var machines []machine
	for i := range plan.Actions {
		a := &plan.Actions[i]
		if a.Kind != nodescaler.Buy {
			return nil, fmt.Errorf("the plan has an action %s", a.Kind)
		}
		pool := byName[a.Pool]
		machines = append(machines, machine{offer: w.offer(a.Shape.Name), zone: pool.Labels[zoneLabel], disk: pool.Labels[diskLabel], pods: a.Pods})
	}
	return machines, nil
}

// pools are one for each zone and kind of disk, on the zone's host.
func (w *world) pools() (pools []nodescaler.Pool, byName map[string]nodescaler.Pool) {
	var shapes []pricing.Shape
	for i := range w.offers {
		shapes = append(shapes, w.offers[i].Shape)
	}
	byName = map[string]nodescaler.Pool{}
	for _, zone := range zones {
		for _, disk := range disks {
			p := nodescaler.Pool{
				Name: zone + "-" + disk, Shapes: shapes, Reserved: reserved, PodSlots: podSlots, Max: 1_000_000, Hosts: []string{zone},
				Labels: map[string]string{zoneLabel: zone, diskLabel: disk, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"},
			}
			pools, byName[p.Name] = append(pools, p), p
		}
	}
	return pools, byName
}

// book has the price of each shape.
func (w *world) book() *pricing.Book {
	b := &pricing.Book{Unit: "units", PerVCPU: perVCPU, PerGiB: perGiB, Shapes: map[string]pricing.ShapePrices{}}
	for i := range w.offers {
		o := &w.offers[i]
		b.Shapes[o.Name] = pricing.ShapePrices{PerHour: &o.price}
	}
	return b
}
