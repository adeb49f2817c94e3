package main

import (
	"k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/testbed/lab/controlplane/keys"
)

var _, _, _ = app.Run, pricing.Micros(1), keys.Keys
