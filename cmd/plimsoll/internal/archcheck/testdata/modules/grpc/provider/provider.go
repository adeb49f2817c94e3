// Package provider may make a Node and no client.
package provider

import (
	"google.golang.org/protobuf/proto"
	"k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)
