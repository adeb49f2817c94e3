// Package kube may talk to Kubernetes, and to no other client.
package kube

import (
	"github.com/google/go-cmp/cmp"
	"github.com/luthermonson/go-proxmox"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
)
