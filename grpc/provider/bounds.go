package provider

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	reflectionv1alpha "google.golang.org/grpc/reflection/grpc_reflection_v1alpha"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
)

// bound is how much a message of a call may hold. It is held against the bytes as they came: 30 MiB
// of empty entries are 2.6 GB once they are decoded.
type bound struct {
	bytes  int
	fields int // of all depths
	list   int // entries of a list or map of the message itself
}

// What calls need. A group's id is a few dozen bytes. A node is its labels and annotations, of
// which Kubernetes allows 256 KiB; a pod is an object, of which etcd takes 1.5 MiB. Kubernetes is
// made for 5,000 nodes. The expander gets all pods that wait, once for every group that would take
// them: 1,000 pods of 4 KiB for six groups.
var (
	ofID    = bound{bytes: 4 << 10, fields: 64, list: 0}
	ofNode  = bound{bytes: 512 << 10, fields: 20_000, list: 0}
	ofPod   = bound{bytes: 2 << 20, fields: 64, list: 0}
	ofNodes = bound{bytes: 2 << 20, fields: 200_000, list: 5000}
	ofPods  = bound{bytes: 24 << 20, fields: 200_000, list: 1000}
)

// bounds are those of all calls. One that is not here is not answered.
var bounds = map[string]bound{
	externalgrpc.CloudProvider_NodeGroups_FullMethodName:                   ofID,
	externalgrpc.CloudProvider_NodeGroupForNode_FullMethodName:             ofNode,
	externalgrpc.CloudProvider_PricingNodePrice_FullMethodName:             ofNode,
	externalgrpc.CloudProvider_PricingPodPrice_FullMethodName:              ofPod,
	externalgrpc.CloudProvider_GPULabel_FullMethodName:                     ofID,
	externalgrpc.CloudProvider_GetAvailableGPUTypes_FullMethodName:         ofID,
	externalgrpc.CloudProvider_Cleanup_FullMethodName:                      ofID,
	externalgrpc.CloudProvider_Refresh_FullMethodName:                      ofID,
	externalgrpc.CloudProvider_NodeGroupTargetSize_FullMethodName:          ofID,
	externalgrpc.CloudProvider_NodeGroupIncreaseSize_FullMethodName:        ofID,
	externalgrpc.CloudProvider_NodeGroupDeleteNodes_FullMethodName:         ofNodes,
	externalgrpc.CloudProvider_NodeGroupDecreaseTargetSize_FullMethodName:  ofID,
	externalgrpc.CloudProvider_NodeGroupNodes_FullMethodName:               ofID,
	externalgrpc.CloudProvider_NodeGroupTemplateNodeInfo_FullMethodName:    ofID,
	externalgrpc.CloudProvider_NodeGroupGetOptions_FullMethodName:          ofID,
	externalgrpc.Expander_BestOptions_FullMethodName:                       ofPods,
	healthpb.Health_Check_FullMethodName:                                   ofID,
	healthpb.Health_List_FullMethodName:                                    ofID,
	healthpb.Health_Watch_FullMethodName:                                   ofID,
	reflectionv1.ServerReflection_ServerReflectionInfo_FullMethodName:      ofID,
	reflectionv1alpha.ServerReflection_ServerReflectionInfo_FullMethodName: ofID,
}

// door is what a port lets in.
type door struct {
	message int // bytes of one, of any call
	calls   int // at once, of all clients
	callsOf int // at once, of one address
	streams uint32
	open    bool // without a certificate
}

// The provider is called by one client, which deletes nodes in ten places at once. The expander is
// asked by one client, about one scale-up at a time. Anybody may ask it, so it holds two such
// questions, of two addresses.
var (
	providerDoor = door{message: 2 << 20, calls: 16, callsOf: 16, streams: 16}
	expanderDoor = door{message: 24 << 20, calls: 2, callsOf: 1, streams: 2, open: true}
)

// lets is how clients are let in.
func (d door) lets(t *TLS) (*tls.Config, error) {
	c, err := t.config()
	if err != nil {
		return nil, err
	}
	if d.open {
		return c.open, nil
	}
	return c.mutual, nil
}

// What is the same at all ports.
const (
	connections   = 64 // of all clients, and as many that have not shown a certificate
	connectionsOf = 16 // of one address
	headerBytes   = 16 << 10
	handshakeTime = 5 * time.Second
	// In which all of a question must come: cluster-autoscaler waits no longer.
	questionTime   = 5 * time.Second
	callTime       = time.Minute // in which it is answered
	idleTime       = 5 * time.Minute
	connectionTime = time.Hour // then it is made anew, with a certificate that is still good
	streamWindow   = 64 << 10
	windowBytes    = 1 << 20
	// copies is how often a message is held while it is read: as it came, in one piece, and
	// decoded.
	copies = 3
)

// options bound what a port reads.
func (d door) options() []grpc.ServerOption {
	at := &callPlaces{places{all: d.calls, of: d.callsOf}}
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(d.message), grpc.MaxConcurrentStreams(d.streams), grpc.MaxHeaderListSize(headerBytes),
		grpc.ConnectionTimeout(handshakeTime), grpc.InTapHandle(at.admit), grpc.ForceServerCodecV2(codec{encoding.GetCodecV2(proto.Name)}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionIdle: idleTime, MaxConnectionAge: connectionTime, MaxConnectionAgeGrace: callTime, Time: time.Minute, Timeout: 20 * time.Second,
		}),
		// Windows that grow by themselves would take 16 MiB of each stream before open reads it.
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(windowBytes),
	}
}

// registrar registers services whose messages are bounded, and no others.
type registrar struct{ *grpc.Server }

// RegisterService registers a service.
func (r registrar) RegisterService(d *grpc.ServiceDesc, with any) {
	of := *d
	of.Methods, of.Streams = slices.Clone(d.Methods), slices.Clone(d.Streams)
	for i := range of.Methods {
		m := &of.Methods[i]
		do, method := m.Handler, "/"+of.ServiceName+"/"+m.MethodName
		m.Handler = func(server any, ctx context.Context, receive func(any) error, between grpc.UnaryServerInterceptor) (any, error) {
			return do(server, ctx, func(v any) error { return read(ctx, method, receive, v) }, between)
		}
	}
	for i := range of.Streams {
		m := &of.Streams[i]
		do, method := m.Handler, "/"+of.ServiceName+"/"+m.StreamName
		m.Handler = func(server any, stream grpc.ServerStream) error { return do(server, boundedStream{stream, method}) }
	}
	r.Server.RegisterService(&of, with)
}

// boundedStream is a stream whose messages are bounded.
type boundedStream struct {
	grpc.ServerStream
	method string
}

// RecvMsg receives a message.
func (s boundedStream) RecvMsg(v any) error {
	return read(s.Context(), s.method, s.ServerStream.RecvMsg, v)
}

// frame is a message as it came.
type frame struct{ text []byte }

// codec leaves frames as they are.
type codec struct{ encoding.CodecV2 }

// Unmarshal reads a message.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, is := v.(*frame); is {
		f.text = data.Materialize()
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// read decodes a call's message if it is within its bound. Fields of releases to come are dropped.
func read(ctx context.Context, method string, receive func(any) error, v any) error {
	message, is := v.(protobuf.Message)
	most, bounded := bounds[method]
	if !is || !bounded {
		return status.Errorf(codes.Internal, "%s: has no bound", method)
	}
	var f frame
	if err := receive(&f); err != nil {
		return err
	}
	if err := arrived(ctx); err != nil {
		return err
	}
	if err := most.check(f.text, message.ProtoReflect().Descriptor()); err != nil {
		return status.Errorf(codes.ResourceExhausted, "%s: %s", method, err)
	}
	if err := (protobuf.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(f.text, message); err != nil {
		return status.Errorf(codes.InvalidArgument, "%s: %s", method, err)
	}
	return nil
}

// check is what a message has too much of, or nil.
func (b bound) check(text []byte, of protoreflect.MessageDescriptor) error {
	if len(text) > b.bytes {
		return fmt.Errorf("must be at most %d bytes, was %d", b.bytes, len(text))
	}
	lists := map[protowire.Number]int{}
	left := b.fields
	return walk(text, of, func(f protoreflect.FieldDescriptor, depth int) error {
		if left--; left < 0 {
			return fmt.Errorf("must have at most %d fields in all, had more", b.fields)
		}
		if depth == 0 && (f.IsList() || f.IsMap()) {
			if lists[f.Number()]++; lists[f.Number()] > b.list {
				return fmt.Errorf("%s: must be at most %d, was more", f.Name(), b.list)
			}
		}
		return nil
	})
}

// walk calls see with every field of a message that is known, and of those that it holds. What
// cannot be read ends it: decoding says so.
func walk(text []byte, of protoreflect.MessageDescriptor, see func(protoreflect.FieldDescriptor, int) error) error {
	type part struct {
		text  []byte
		of    protoreflect.MessageDescriptor
		depth int
	}
	for parts := []part{{text, of, 0}}; len(parts) > 0; {
		p := &parts[len(parts)-1]
		if len(p.text) == 0 {
			parts = parts[:len(parts)-1]
			continue
		}
		n, kind, size := protowire.ConsumeTag(p.text)
		if size < 0 {
			return nil
		}
		whole := protowire.ConsumeFieldValue(n, kind, p.text[size:])
		if whole < 0 {
			return nil
		}
		value := p.text[size : size+whole]
		p.text = p.text[size+whole:]
		f := p.of.Fields().ByNumber(n)
		if f == nil {
			continue
		}
		if err := see(f, p.depth); err != nil {
			return err
		}
		if inner, _ := protowire.ConsumeBytes(value); kind == protowire.BytesType && f.Message() != nil {
			parts = append(parts, part{inner, f.Message(), p.depth + 1})
		}
	}
	return nil
}
