package provider

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/must"
	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// asks are the calls that a port answers, each with what it is asked.
func asks(t *testing.T, register func(registrar)) map[string]protoreflect.MessageDescriptor {
	t.Helper()
	server := grpc.NewServer()
	register(registrar{server})
	all := map[string]protoreflect.MessageDescriptor{}
	for name, of := range server.GetServiceInfo() {
		found := must.Get(protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name)))(t)
		service, _ := found.(protoreflect.ServiceDescriptor)
		for _, m := range of.Methods {
			all["/"+name+"/"+m.Name] = service.Methods().ByName(protoreflect.Name(m.Name)).Input()
		}
	}
	return all
}

// received is a message of a call, read.
func received(method string, of protoreflect.MessageDescriptor, text []byte) error {
	return read(context.Background(), method, func(v any) error {
		f, _ := v.(*frame)
		f.text = text
		return nil
	}, dynamicpb.NewMessage(of))
}

// Every call that a port answers has a bound on its bytes, its fields and its lists, and is held to
// each: a call that is added without one fails here, and is not answered.
func TestEveryCallIsBounded(t *testing.T) {
	s, _ := made(t, nil)
	var seen []string
	for _, port := range []struct {
		name string
		door door
		asks map[string]protoreflect.MessageDescriptor
	}{
		{"provider", providerDoor, asks(t, func(r registrar) { s.registerProvider(r, health.NewServer()) })},
		{"expander", expanderDoor, asks(t, s.registerExpander)},
	} {
		if port.door.calls == 0 || port.door.streams == 0 || port.door.calls*port.door.message*copies > 256<<20 {
			t.Errorf("%s: %+v", port.name, port.door)
		}
		for method, of := range port.asks {
			seen = append(seen, method)
			b, there := bounds[method]
			if !there || b.bytes == 0 || b.fields == 0 || b.bytes > port.door.message {
				t.Errorf("%s: %+v at a port that takes %d bytes", method, b, port.door.message)
				continue
			}
			held(t, method, of, b)
		}
	}
	slices.Sort(seen)
	if all := slices.Sorted(maps.Keys(bounds)); !slices.Equal(all, seen) {
		t.Errorf("bounds are of %q, calls are %q", all, seen)
	}
	of := (&externalgrpc.RefreshRequest{}).ProtoReflect().Descriptor()
	if err := received("/new.Service/Call", of, nil); status.Code(err) != codes.Internal {
		t.Errorf("a call without a bound: %v", err)
	}
}

// held tries messages that are as large as a call's may be, and ones that are larger by one.
func held(t *testing.T, method string, of protoreflect.MessageDescriptor, b bound) {
	t.Helper()
	check := func(what string, fits, over []byte) {
		t.Helper()
		if err := received(method, of, fits); err != nil {
			t.Errorf("%s: %s at the bound: %v", method, what, err)
		}
		if err := received(method, of, over); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "must") {
			t.Errorf("%s: %s beyond the bound: %v", method, what, err)
		}
	}
	check("bytes", padded(b.bytes), padded(b.bytes+1))
	for i := range of.Fields().Len() {
		f := of.Fields().Get(i)
		one := protowire.AppendTag(nil, f.Number(), protowire.VarintType)
		one = append(one, 0)
		if kind := f.Kind(); kind == protoreflect.StringKind || kind == protoreflect.BytesKind || kind == protoreflect.MessageKind {
			one = protowire.AppendBytes(protowire.AppendTag(nil, f.Number(), protowire.BytesType), nil)
		}
		if f.IsList() || f.IsMap() {
			if b.list == 0 {
				t.Errorf("%s: %s takes nothing", method, f.Name())
			}
			check(string(f.Name()), bytes.Repeat(one, b.list), bytes.Repeat(one, b.list+1))
			continue
		}
		check(string(f.Name()), bytes.Repeat(one, b.fields), bytes.Repeat(one, b.fields+1))
	}
}

// padded is a message of n bytes, of which one field is all: one of a release to come.
func padded(n int) []byte {
	tag := protowire.AppendTag(nil, 1000, protowire.BytesType)
	for size := 1; ; size++ {
		if rest := n - len(tag) - size; protowire.SizeBytes(rest) == size+rest {
			return protowire.AppendBytes(tag, make([]byte, rest))
		}
	}
}

// Fields count at any depth.
func TestFieldsOfFieldsCount(t *testing.T) {
	pods := &externalgrpc.Option{PodBytes: make([][]byte, ofPods.fields-1)}
	text := func(options ...*externalgrpc.Option) []byte {
		return must.Get(proto.Marshal(&externalgrpc.BestOptionsRequest{Options: options}))(t)
	}
	of := (&externalgrpc.BestOptionsRequest{}).ProtoReflect().Descriptor()
	if err := ofPods.check(text(pods), of); err != nil {
		t.Error(err)
	}
	if err := ofPods.check(text(pods, &externalgrpc.Option{}), of); err == nil || err.Error() != "must have at most 200000 fields in all, had more" {
		t.Error(err)
	}
}

// fieldsOf is how many fields a message has on the wire, by what it was decoded to.
func fieldsOf(m protoreflect.Message) int {
	n := 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			n += 3 * v.Map().Len()
		case f.IsList() && f.Message() != nil:
			for i := range v.List().Len() {
				n += 1 + fieldsOf(v.List().Get(i).Message())
			}
		case f.IsList():
			n += v.List().Len()
		case f.Message() != nil:
			n += 1 + fieldsOf(v.Message())
		default:
			n++
		}
		return true
	})
	return n
}

func TestFieldsAreCountedAsTheyAreDecoded(t *testing.T) {
	texts := rapid.MapOf(rapid.StringN(0, 5, 20), rapid.StringN(0, 5, 20))
	rapid.Check(t, func(t *rapid.T) {
		r := &externalgrpc.NodeGroupDeleteNodesRequest{Id: rapid.StringN(0, 5, 20).Draw(t, "id")}
		for range rapid.IntRange(0, 5).Draw(t, "nodes") {
			r.Nodes = append(r.Nodes, &externalgrpc.ExternalGrpcNode{
				Name: rapid.StringN(0, 5, 20).Draw(t, "name"), Labels: texts.Draw(t, "labels"), Annotations: texts.Draw(t, "annotations"),
			})
		}
		text := must.Get(proto.Marshal(r))(t)
		n := fieldsOf(r.ProtoReflect())
		for most, fits := range map[int]bool{n: true, n - 1: n == 0} {
			if err := (bound{bytes: len(text), fields: max(0, most), list: 5}).check(text, r.ProtoReflect().Descriptor()); (err == nil) != fits {
				t.Fatalf("%d of %d fields: %v", n, most, err)
			}
		}
	})
}

// 20 MiB of empty options would be 1.7 GB once they are decoded.
func TestEmptyEntriesAreRefusedBeforeTheyAreDecoded(t *testing.T) {
	empty := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil)
	for method, of := range map[string]proto.Message{
		externalgrpc.Expander_BestOptions_FullMethodName:               &externalgrpc.BestOptionsRequest{},
		externalgrpc.CloudProvider_NodeGroupDeleteNodes_FullMethodName: &externalgrpc.NodeGroupDeleteNodesRequest{},
	} {
		text := bytes.Repeat(empty, bounds[method].bytes/len(empty))
		before := allocated()
		err := read(context.Background(), method, func(v any) error { v.(*frame).text = text; return nil }, of) //nolint:forcetypeassert // it is one
		if grown := allocated() - before; status.Code(err) != codes.ResourceExhausted || grown > 1<<20 {
			t.Errorf("%s: %v, and %d bytes", method, err, grown)
		}
	}
}

// Messages that are longer than a port takes are not even read.
func TestLongMessagesAreNotRead(t *testing.T) {
	s, _ := made(t, nil)
	for name, port := range map[string]struct {
		address, method string
		most            int
	}{
		"provider": {serve(t, s, Listening{}), externalgrpc.CloudProvider_NodeGroupDeleteNodes_FullMethodName, providerDoor.message},
		"expander": {serveBy(t, s.ServeExpander, Listening{}), externalgrpc.Expander_BestOptions_FullMethodName, expanderDoor.message},
	} {
		conn := dial(t, port.address, insecure.NewCredentials())
		var out []byte
		err := conn.Invoke(t.Context(), port.method, make([]byte, port.most+1), &out, grpc.ForceCodec(raw{}))
		if want := fmt.Sprintf("received message larger than max (%d vs. %d)", port.most+1, port.most); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it is not so that %s", what)
		}
	}
}
