package utils

import "k8s.io/kubernetes/pkg/everything"

var _ = everything.Everything
