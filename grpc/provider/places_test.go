package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// from connects from one of the addresses of this machine.
func from(ip, to string) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}, Timeout: time.Second}
	return d.Dial("tcp", to)
}

// loopbacks are n addresses of this machine, of which no client is.
func loopbacks(t *testing.T, n int) []string {
	t.Helper()
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("127.0.0.%d", i+2))
	}
	l, _ := listen(t)
	defer func() { _ = l.Close() }()
	c, err := from(all[0], l.Addr().String())
	if err != nil {
		t.Skipf("NOT TRIED, for there is no second address here: %v", err)
	}
	_ = c.Close()
	return all
}

// crowd has as many connections of these addresses as it can, and makes them anew as they are
// closed.
func crowd(t *testing.T, to string, addresses []string, each int, says string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { cancel(); all.Wait() })
	for i := range each * len(addresses) {
		all.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
				c, err := from(addresses[i%len(addresses)], to)
				if err != nil {
					continue
				}
				stop := context.AfterFunc(ctx, func() { _ = c.Close() })
				_, _ = io.WriteString(c, says)
				_, _ = io.Copy(io.Discard, c)
				stop()
				_ = c.Close()
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
}

// Connections that have shown no certificate keep no client out and do not end its connection, of
// however many addresses they are.
func TestStrangersKeepNoClientOut(t *testing.T) {
	for what, attack := range map[string]struct{ addresses, each int }{
		"one address": {1, 4 * connections}, "several addresses": {8, 32}, "more addresses than places": {100, 2},
	} {
		t.Run(what, func(t *testing.T) {
			ours := certificates(t, time.Now(), time.Hour)
			s, _ := made(t, nil)
			address := serve(t, s, Listening{TLS: lets(ours)})
			creds := client(t, ours, ours)
			lasting := dial(t, address, creds)
			must.Do(t, call(t, lasting))
			crowd(t, address, loopbacks(t, attack.addresses), attack.each, "")
			for range 10 {
				answered(t, lasting)
				answered(t, dial(t, address, creds))
			}
		})
	}
}

// answered holds a call to seconds, within which it may be repeated.
func answered(t *testing.T, conn *grpc.ClientConn) {
	t.Helper()
	until(t, "the client is answered", func() bool { return call(t, conn) == nil })
}

// A connection that shows no certificate, or is silent after it, ends within seconds.
func TestSilentConnectionsEnd(t *testing.T) {
	t.Parallel()
	s, _ := made(t, nil)
	for what, at := range map[string]string{
		"provider": serve(t, s, Listening{TLS: lets(certificates(t, time.Now(), time.Hour))}),
		"expander": serveBy(t, s.ServeExpander, Listening{}),
	} {
		c := must.Get(net.Dial("tcp", at))(t)
		_ = c.SetDeadline(time.Now().Add(handshakeTime + 5*time.Second))
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		_ = c.Close()
	}
}

// Calls that send nothing keep no client out of the expander, of however many addresses they are.
func TestSilentCallsKeepNoClientOut(t *testing.T) {
	for what, addresses := range map[string]int{"one address": 1, "several addresses": 12} {
		t.Run(what, func(t *testing.T) {
			s, _ := made(t, nil)
			address := serveBy(t, s.ServeExpander, Listening{})
			question := &externalgrpc.BestOptionsRequest{Options: []*externalgrpc.Option{{NodeGroupId: groupOf(t, s, "workers.small"), NodeCount: 1}}}
			for i := range 24 {
				ip := loopbacks(t, addresses)[i%addresses]
				beginCalls(t, address, grpc.WithContextDialer(func(_ context.Context, to string) (net.Conn, error) { return from(ip, to) }))
			}
			time.Sleep(300 * time.Millisecond)
			for range 10 {
				conn := dial(t, address, insecure.NewCredentials())
				until(t, "the expander answers", func() bool {
					_, err := externalgrpc.NewExpanderClient(conn).BestOptions(t.Context(), question)
					return err == nil
				})
			}
		})
	}
}

// So with connections that have greeted the expander and ask nothing.
func TestIdleConnectionsKeepNoClientOut(t *testing.T) {
	s, _ := made(t, nil)
	address := serveBy(t, s.ServeExpander, Listening{})
	question := &externalgrpc.BestOptionsRequest{Options: []*externalgrpc.Option{{NodeGroupId: groupOf(t, s, "workers.small"), NodeCount: 1}}}
	crowd(t, address, loopbacks(t, 8), 32, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	lasting := externalgrpc.NewExpanderClient(dial(t, address, insecure.NewCredentials()))
	for range 5 {
		fresh := externalgrpc.NewExpanderClient(dial(t, address, insecure.NewCredentials()))
		for what, by := range map[string]externalgrpc.ExpanderClient{"a lasting connection": lasting, "a fresh one": fresh} {
			until(t, "the expander answers by "+what, func() bool {
				_, err := by.BestOptions(t.Context(), question)
				return err == nil
			})
		}
	}
}

// beginCalls begins calls of the expander that send nothing, until the test ends.
func beginCalls(t *testing.T, address string, by grpc.DialOption) {
	t.Helper()
	conn := must.Get(grpc.NewClient(address, by, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	var all sync.WaitGroup
	t.Cleanup(func() { _ = conn.Close(); all.Wait() })
	all.Go(func() {
		for t.Context().Err() == nil {
			stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, externalgrpc.Expander_BestOptions_FullMethodName)
			if err == nil {
				_ = stream.RecvMsg(&externalgrpc.BestOptionsResponse{})
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

// of is what a call of an address comes with.
func of(t *testing.T, ip string) context.Context {
	t.Helper()
	return peer.NewContext(t.Context(), &peer.Peer{Addr: &net.TCPAddr{IP: net.ParseIP(ip)}})
}

func inPlace(c *callPlaces) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held)
}

func TestCallsEndWhoseQuestionDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &callPlaces{places{all: 2, of: 2}}
		silent := must.Get(c.admit(of(t, "10.0.0.1"), nil))(t)
		came := must.Get(c.admit(of(t, "10.0.0.1"), nil))(t)
		for range 2 { // messages of one stream
			if err := arrived(came); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(questionTime)
		synctest.Wait()
		if silent.Err() == nil || came.Err() != nil || inPlace(c) != 1 {
			t.Errorf("%v, %v, and %d calls", silent.Err(), came.Err(), inPlace(c))
		}
		if err := arrived(silent); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("one that comes too late: %v", err)
		}
		time.Sleep(callTime)
		synctest.Wait()
		if came.Err() == nil || inPlace(c) != 0 {
			t.Errorf("%v, and %d calls", came.Err(), inPlace(c))
		}
	})
}

// Calls that are being answered make no room.
func TestCallsThatAreAnsweredGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &callPlaces{places{all: 2, of: 1}}
		first, err := c.admit(of(t, "10.0.0.1"), nil)
		if err != nil || arrived(first) != nil {
			t.Fatal(err)
		}
		if _, err := c.admit(of(t, "10.0.0.1"), nil); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a second of one address: %v", err)
		}
		second := must.Get(c.admit(of(t, "10.0.0.2"), nil))(t)
		third, err := c.admit(of(t, "10.0.0.3"), nil)
		synctest.Wait()
		if err != nil || first.Err() != nil || second.Err() == nil || third.Err() != nil {
			t.Errorf("%v; %v, %v, %v", err, first.Err(), second.Err(), third.Err())
		}
		time.Sleep(callTime)
	})
}

// A newcomer always gets a place where nothing is busy, places are never more than they may be, and
// nothing goes of an address that has less than the newcomer's.
func TestPlacesLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &places{all: rapid.IntRange(1, 6).Draw(t, "all"), of: rapid.IntRange(1, 6).Draw(t, "of")}
		count := map[string]int{}
		for range rapid.IntRange(0, 40).Draw(t, "comers") {
			h := &holder{from: rapid.StringMatching("[a-d]").Draw(t, "from")}
			h.end = func() {
				if count[h.from] < count["newcomer"] {
					t.Fatalf("one of %v goes", count)
				}
			}
			count = map[string]int{"newcomer": 1}
			for _, is := range p.held {
				count[is.from]++
				if is.from == h.from {
					count["newcomer"]++
				}
			}
			count[h.from] = count["newcomer"]
			if !p.enter(h) {
				t.Fatal("a newcomer is refused")
			}
			if len(p.held) > p.all || !slices.Contains(p.held, h) {
				t.Fatalf("%d of %d", len(p.held), p.all)
			}
		}
		for _, h := range slices.Clone(p.held) {
			if n := len(slices.DeleteFunc(slices.Clone(p.held), func(is *holder) bool { return is.from != h.from })); n > p.of {
				t.Fatalf("%d of %s, of at most %d", n, h.from, p.of)
			}
			p.leave(h)
		}
		if len(p.held) != 0 {
			t.Fatalf("%d are left", len(p.held))
		}
	})
}

// Beyond its places a listener closes the oldest connection of the address that has most.
func TestALimitedListenerClosesTheOldest(t *testing.T) {
	inner := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l := Limited(inner, 4, 2)
	defer func() { _ = l.Close() }()
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	var all []net.Conn
	for range 3 {
		c := must.Get(net.Dial("tcp", inner.Addr().String()))(t)
		defer func() { _ = c.Close() }()
		all = append(all, c)
	}
	must.Do(t, all[0].SetReadDeadline(time.Now().Add(5*time.Second)))
	if _, err := all[0].Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the oldest: %v, want it closed", err)
	}
	must.Do(t, all[1].SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	var late net.Error
	if _, err := all[1].Read(make([]byte, 1)); !errors.As(err, &late) || !late.Timeout() {
		t.Errorf("the second: %v, want it open", err)
	}
}
