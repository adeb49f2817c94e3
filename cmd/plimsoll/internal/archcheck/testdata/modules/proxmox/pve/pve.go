// Package pve tags machines with Kubernetes' types.
package pve

import "k8s.io/apimachinery/pkg/types"
