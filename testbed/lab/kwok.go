package lab

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"path/filepath"
	"text/template"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/timing"
)

// KWOK is the part that plays kubelet: nodes that have the label KubeletLabel become Ready and stay
// so, and pods bound to them run, and go when they are deleted. A node that loses the label falls
// silent, as one whose machine has died, and so do its pods; one that gets it back recovers.
type KWOK struct {
	// PodStart is how long a pod takes from being bound to being Ready; PodStartAnnotation on the
	// pod goes first. PodStop is how long it takes to go once it is deleted.
	PodStart, PodStop timing.Range
	// Heartbeat is the time between two signs of life of a node, 8 to 12 seconds if not given. The
	// controllers take a node for dead after --node-monitor-grace-period, which is 50 seconds.
	Heartbeat timing.Range

	port int
}

const (
	// KWOKPart is the name of the part.
	KWOKPart = "kwok"
	// KubeletLabel is the label of nodes that KWOK plays the kubelet of.
	KubeletLabel = "kwok.x-k8s.io/node"
	// KubeletLabelValue is the value that it must have.
	KubeletLabelValue = "fake"
	// PodStartAnnotation on a pod says how long it takes to be Ready, such as 30s.
	PodStartAnnotation = "testbed.plimsoll.dev/pod-start"
)

// podNetwork is where pods without a node of their own network get addresses from. Nothing answers
// there.
const podNetwork = "10.128.0.1/9"

//go:embed kwok.yaml
var kwokStages string

// Name is the part's name.
func (k *KWOK) Name() string { return KWOKPart }

// Tools are what the part needs.
func (k *KWOK) Tools() []Tool { return []Tool{ToolKWOK} }

// Start starts the process and waits until it watches.
func (k *KWOK) Start(ctx context.Context, l *Lab) (*Running, error) {
	program, err := l.Tool(ctx, ToolKWOK)
	if err != nil {
		return nil, err
	}
	folder, err := l.Folder(KWOKPart)
	if err != nil {
		return nil, err
	}
	stages, err := k.stages()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(folder, "stages.yaml")
	if err := replaceFile(config, stages); err != nil {
		return nil, err
	}
	port, err := keptPort(&k.port)
	if err != nil {
		return nil, err
	}
	url := "http://" + loopback(port)
	p := &Process{
		Path: program,
		Args: []string{
			"--kubeconfig", l.plane.kubeconfig(l, kwokUser), "--config", config,
			"--manage-nodes-with-label-selector", KubeletLabel + "=" + KubeletLabelValue,
			// Heartbeats are in the nodes' status; with leases, a node that falls silent would not.
			"--node-lease-duration-seconds", "0",
			"--cidr", podNetwork, "--server-address", loopback(port),
		},
		Env:       []string{"KWOK_WORKDIR=" + folder}, // not what this user has set for KWOK
		Answers:   OK(url + "/healthz"),
		Endpoints: []Endpoint{{"health", url + "/healthz"}},
	}
	return p.Start(ctx, l, KWOKPart)
}

// stages are what KWOK is asked to do.
func (k *KWOK) stages() ([]byte, error) {
	type millis struct{ Min, Max int64 }
	in := func(r timing.Range) millis { return millis{r.Min.Milliseconds(), r.Max.Milliseconds()} }
	heartbeat := cmp.Or(k.Heartbeat, timing.Range{Min: 8 * time.Second, Max: 12 * time.Second})
	if err := errors.Join(proper("podStart", k.PodStart), proper("podStop", k.PodStop), proper("heartbeat", heartbeat)); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	t := template.Must(template.New(KWOKPart).Delims("[[", "]]").Option("missingkey=error").Parse(kwokStages))
	err := t.Execute(&text, map[string]any{
		"PodStart": in(k.PodStart), "PodStop": in(k.PodStop), "Heartbeat": in(heartbeat), "StartAnnotation": PodStartAnnotation,
		"Label": KubeletLabel, "LabelValue": KubeletLabelValue,
	})
	return text.Bytes(), err
}

func proper(name string, r timing.Range) error {
	if !r.Valid() {
		return fmt.Errorf("%s: must be a range of times from 0 up, was %s to %s", name, r.Min, r.Max)
	}
	return nil
}
