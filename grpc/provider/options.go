package provider

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/nodescaler"
	"github.com/plimsoll/plimsoll/pricing"
)

// Options are what cluster-autoscaler is to do with a pool otherwise than its flags say. What is
// absent stays as it is there.
type Options struct {
	ScaleDownUtilizationThreshold    *float64             `json:"scaleDownUtilizationThreshold"`
	ScaleDownGPUUtilizationThreshold *float64             `json:"scaleDownGpuUtilizationThreshold"`
	ScaleDownUnneededTime            *nodescaler.Duration `json:"scaleDownUnneededTime"`
	ScaleDownUnreadyTime             *nodescaler.Duration `json:"scaleDownUnreadyTime"`
	MaxNodeProvisionTime             *nodescaler.Duration `json:"maxNodeProvisionTime"`
	MaxNodeStartupTime               *nodescaler.Duration `json:"maxNodeStartupTime"`
	ZeroOrMaxNodeScaling             *bool                `json:"zeroOrMaxNodeScaling"`
	IgnoreDaemonSetsUtilization      *bool                `json:"ignoreDaemonSetsUtilization"`
}

// Validate says everything that is wrong with the options.
func (o *Options) Validate() error { return errors.Join(o.faults()...) }

func (o *Options) faults() []error {
	if o == nil {
		return nil
	}
	var faults pricing.Faults
	must := faults.Must
	share := func(key string, f *float64) {
		must(f == nil || *f >= 0 && *f <= 1, key, "from 0 to 1", value(f))
	}
	positive := func(key string, d *nodescaler.Duration) {
		must(d == nil || *d > 0, key, "greater than 0", time.Duration(value(d)))
	}
	share("scaleDownUtilizationThreshold", o.ScaleDownUtilizationThreshold)
	share("scaleDownGpuUtilizationThreshold", o.ScaleDownGPUUtilizationThreshold)
	positive("scaleDownUnneededTime", o.ScaleDownUnneededTime)
	positive("scaleDownUnreadyTime", o.ScaleDownUnreadyTime)
	positive("maxNodeProvisionTime", o.MaxNodeProvisionTime)
	positive("maxNodeStartupTime", o.MaxNodeStartupTime)
	return faults
}

func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// NodeGroupGetOptions answers with nothing set, which every release takes for its own flags. Where
// a pool has options, they are laid over the defaults that the client sends along, and only if it
// speaks a generation that can take them. Releases whose core knows a time that their messages
// cannot carry would take any answer for a time of zero: up to 1.28 the time to provision a node,
// from 1.35 the time to start one.
func (s *Server) NodeGroupGetOptions(ctx context.Context, r *externalgrpc.NodeGroupAutoscalingOptionsRequest) (*externalgrpc.NodeGroupAutoscalingOptionsResponse, error) {
	g, err := s.memory.look(ctx).group(r.GetId())
	if err != nil {
		return nil, err
	}
	answer := &externalgrpc.NodeGroupAutoscalingOptionsResponse{}
	if o := g.pool.Options; o != nil && takesOptions(r.GetDefaults()) {
		answer.NodeGroupAutoscalingOptions = o.over(r.GetDefaults())
	}
	return answer, nil
}

// takesOptions reports whether a client that sends such defaults reads an answer as it is meant: it
// sends all the durations of its own core, the old ones before the start time came, or that too.
func takesOptions(defaults *externalgrpc.NodeGroupAutoscalingOptions) bool {
	return defaults.GetMaxNodeProvisionTime() != nil || defaults.GetMaxNodeStartupDuration() != nil
}

// over lays the options over the defaults. Every duration is set in both generations: clients take
// an absent one for zero, or fall over it.
func (o *Options) over(d *externalgrpc.NodeGroupAutoscalingOptions) *externalgrpc.NodeGroupAutoscalingOptions {
	a := &externalgrpc.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    d.GetScaleDownUtilizationThreshold(),
		ScaleDownGpuUtilizationThreshold: d.GetScaleDownGpuUtilizationThreshold(),
		ZeroOrMaxNodeScaling:             d.GetZeroOrMaxNodeScaling(),
		IgnoreDaemonSetsUtilization:      d.GetIgnoreDaemonSetsUtilization(),
		AllowNonAtomicScaleUpToMax:       d.GetAllowNonAtomicScaleUpToMax(),
	}
	set(&a.ScaleDownUtilizationThreshold, o.ScaleDownUtilizationThreshold)
	set(&a.ScaleDownGpuUtilizationThreshold, o.ScaleDownGPUUtilizationThreshold)
	set(&a.ZeroOrMaxNodeScaling, o.ZeroOrMaxNodeScaling)
	set(&a.IgnoreDaemonSetsUtilization, o.IgnoreDaemonSetsUtilization)
	a.ScaleDownUnneededTime, a.ScaleDownUnneededDuration = both(o.ScaleDownUnneededTime, d.GetScaleDownUnneededTime(), d.GetScaleDownUnneededDuration(), 10*time.Minute)
	a.ScaleDownUnreadyTime, a.ScaleDownUnreadyDuration = both(o.ScaleDownUnreadyTime, d.GetScaleDownUnreadyTime(), d.GetScaleDownUnreadyDuration(), 20*time.Minute)
	a.MaxNodeProvisionTime, a.MaxNodeProvisionDuration = both(o.MaxNodeProvisionTime, d.GetMaxNodeProvisionTime(), d.GetMaxNodeProvisionDuration(), 15*time.Minute)
	_, a.MaxNodeStartupDuration = both(o.MaxNodeStartupTime, nil, d.GetMaxNodeStartupDuration(), 15*time.Minute)
	return a
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// both is a duration in both generations: ours, else the default that was sent, else
// cluster-autoscaler's.
func both(ours *nodescaler.Duration, old *externalgrpc.Nanoseconds, recent *durationpb.Duration, usual time.Duration) (*externalgrpc.Nanoseconds, *durationpb.Duration) {
	d := usual
	switch {
	case ours != nil:
		d = time.Duration(*ours)
	case recent != nil:
		d = recent.AsDuration()
	case old != nil:
		d = time.Duration(old.GetDuration())
	}
	return &externalgrpc.Nanoseconds{Duration: int64(d)}, durationpb.New(d)
}
