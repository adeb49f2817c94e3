package scaler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/plimsoll/plimsoll/grpc/externalscaler"
	"github.com/plimsoll/plimsoll/nodescaler/loop"
	"github.com/plimsoll/plimsoll/podscaler"
)

// The metrics that a trigger may name in its metadata.
const (
	Replicas = "replicas" // how many the WorkloadAutoscaler wants; its target is 1
	Forecast = "forecast" // the load that is expected, for which the trigger says its target
)

// maxAge is for how long a decision counts: the longest time between two is ten minutes. An error
// has KEDA and its HPA leave the replicas as they are.
const maxAge = 15 * time.Minute

// Server answers KEDA from the steps that it is shown: it is a journal of them.
type Server struct {
	externalscaler.UnimplementedExternalScalerServer
	now func() time.Time

	mu    sync.Mutex
	last  map[string]decided
	steps chan struct{} // closed with each step
}

// decided is what was last decided for a workload.
type decided struct {
	at       time.Time
	replicas int
	forecast podscaler.Forecast
}

// New returns a server that knows of no workload yet.
func New(now func() time.Time) *Server {
	return &Server{now: now, last: map[string]decided{}, steps: make(chan struct{})}
}

// Append takes in a step. Workloads that are no part of it any more are forgotten. A step that saw
// nothing of the cluster says nothing of them.
func (s *Server) Append(step *loop.Step) error {
	if step.Says(loop.CodeClusterUnknown) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make(map[string]decided, len(step.Workloads))
	for i := range step.Workloads {
		w := &step.Workloads[i]
		if w.Decision != nil {
			next[w.Workload] = decided{step.Time, w.Decision.To, w.Decision.Forecast}
		} else if was, known := s.last[w.Workload]; known {
			next[w.Workload] = was
		}
	}
	s.last = next
	close(s.steps)
	s.steps = make(chan struct{})
	return nil
}

// Serve serves until the context is done. It can be called again then, and knows nothing of what
// was decided before: another process may have led meanwhile.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.mu.Lock()
	s.last = map[string]decided{}
	s.mu.Unlock()
	server := grpc.NewServer(options()...)
	externalscaler.RegisterExternalScalerServer(server, s)
	defer context.AfterFunc(ctx, server.Stop)() // streams have no end of their own
	if err := server.Serve(l); !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// options bound what is held of a connection. KEDA has one, with a stream for each trigger that it
// has pushed to it; such a stream, and its connection, have no end of their own.
func options() []grpc.ServerOption {
	const message, header, streams, window = 16 << 10, 16 << 10, 1000, 64 << 10
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(message), grpc.MaxHeaderListSize(header), grpc.MaxConcurrentStreams(streams),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.ConnectionTimeout(5 * time.Second),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: 5 * time.Minute, Time: time.Minute, Timeout: 20 * time.Second}),
	}
}

// question is what a trigger asks for.
type question struct {
	workload string // namespace/name of the WorkloadAutoscaler
	metric   string
	target   float64
}

// read reads a trigger's metadata. A ScaledObject sees the WorkloadAutoscalers of its own
// namespace.
func read(ref *externalscaler.ScaledObjectRef) (question, error) {
	said := ref.GetScalerMetadata()
	q := question{workload: ref.GetNamespace() + "/" + ref.GetName(), metric: Replicas, target: 1}
	if name := said["workload"]; name != "" {
		q.workload = ref.GetNamespace() + "/" + name
	}
	if metric := said["metric"]; metric != "" {
		q.metric = metric
	}
	text, given := said["target"]
	switch {
	case q.metric != Replicas && q.metric != Forecast:
		return q, status.Errorf(codes.InvalidArgument, "metric: must be %s or %s, was %q", Replicas, Forecast, q.metric)
	case q.metric == Replicas && given:
		return q, status.Errorf(codes.InvalidArgument, "target: must be omitted with metric %s, of which each replica counts as 1, was %q", Replicas, text)
	case q.metric == Forecast:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || !(n > 0) || n > 1e15 {
			return q, status.Errorf(codes.InvalidArgument, "target: must be the load that one replica takes, above 0, with metric %s, was %q", Forecast, text)
		}
		q.target = n
	}
	return q, nil
}

// answer is what the metric is now, or why that is not known.
func (s *Server) answer(q question) (float64, error) {
	s.mu.Lock()
	d, known := s.last[q.workload]
	s.mu.Unlock()
	age := s.now().Sub(d.at)
	switch {
	case !known:
		return 0, status.Errorf(codes.NotFound, "nothing has been decided for a WorkloadAutoscaler %s", q.workload)
	case age > maxAge:
		return 0, status.Errorf(codes.Unavailable, "the last decision for %s is %s old, must be at most %s", q.workload, age.Round(time.Second), maxAge)
	case q.metric == Replicas:
		return float64(d.replicas), nil
	case !d.forecast.Known():
		return 0, status.Errorf(codes.Unavailable, "no load is forecast for %s: policies Predictive and Joint do, once they have seen enough", q.workload)
	}
	return d.forecast.Load, nil
}

// IsActive reports whether the workload is to have a replica at all.
func (s *Server) IsActive(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.IsActiveResponse, error) {
	q, err := read(ref)
	if err != nil {
		return nil, err
	}
	v, err := s.answer(q)
	if err != nil {
		return nil, err
	}
	return &externalscaler.IsActiveResponse{Result: v > 0}, nil
}

// StreamIsActive says so at once, and whenever it changes. While it is not known nothing is said.
func (s *Server) StreamIsActive(ref *externalscaler.ScaledObjectRef, stream externalscaler.ExternalScaler_StreamIsActiveServer) error {
	q, err := read(ref)
	if err != nil {
		return err
	}
	for said := (*bool)(nil); ; {
		s.mu.Lock()
		next := s.steps
		s.mu.Unlock()
		if v, err := s.answer(q); err == nil && (said == nil || *said != (v > 0)) {
			said = new(v > 0)
			if err := stream.Send(&externalscaler.IsActiveResponse{Result: *said}); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-next:
		}
	}
}

// GetMetricSpec says what the metric is called, and how much of it one replica takes.
func (s *Server) GetMetricSpec(_ context.Context, ref *externalscaler.ScaledObjectRef) (*externalscaler.GetMetricSpecResponse, error) {
	q, err := read(ref)
	if err != nil {
		return nil, err
	}
	whole := max(int64(q.target), 1) // for releases that read no other
	return &externalscaler.GetMetricSpecResponse{MetricSpecs: []*externalscaler.MetricSpec{{MetricName: q.metric, TargetSize: whole, TargetSizeFloat: q.target}}}, nil
}

// GetMetrics is what the metric is.
func (s *Server) GetMetrics(_ context.Context, in *externalscaler.GetMetricsRequest) (*externalscaler.GetMetricsResponse, error) {
	q, err := read(in.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	if in.GetMetricName() != q.metric {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("metricName: must be %s, which the trigger asks for, was %q", q.metric, in.GetMetricName()))
	}
	v, err := s.answer(q)
	if err != nil {
		return nil, err
	}
	return &externalscaler.GetMetricsResponse{MetricValues: []*externalscaler.MetricValue{{MetricName: q.metric, MetricValue: int64(v), MetricValueFloat: v}}}, nil
}
