package upstream_test

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// door is how the emulated cluster is reached: over HTTPS, at 127.0.0.1, each host at a port of its
// own. While it is shut, connections are taken and nothing is answered, as by a cluster that hangs.
type door struct {
	urls        []string
	fingerprint string

	mu     sync.Mutex
	shut   chan struct{} // closed when it opens; nil while it is open
	gone   bool          // no one is behind it: connections break
	orders int           // calls that were to change something
}

// open serves hosts of a cluster until the test ends.
func open(t testing.TB, sim *pvesim.Cluster, hosts ...string) *door {
	t.Helper()
	d := &door{}
	certificate, fingerprint, err := pvesim.SelfSigned("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	d.fingerprint = fingerprint
	for _, host := range hosts {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
		ended := make(chan error, 1)
		go func() {
			ended <- sim.Serve(guarded{l, d}, host, &tls.Config{Certificates: []tls.Certificate{certificate}})
		}()
		t.Cleanup(func() {
			d.open()
			_ = l.Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		d.urls = append(d.urls, "https://"+l.Addr().String())
	}
	return d
}

// close lets nothing be answered any more.
func (d *door) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shut == nil {
		d.shut = make(chan struct{})
	}
}

// leave lets every connection break.
func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
}

// open lets everything be answered, what came before too.
func (d *door) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = false
	if d.shut != nil {
		close(d.shut)
		d.shut = nil
	}
}

// wait is over when the door is open, and says whether the cluster answers.
func (d *door) wait() bool {
	d.mu.Lock()
	shut, gone := d.shut, d.gone
	d.mu.Unlock()
	if shut != nil {
		<-shut
	}
	return !gone
}

// guarded hands out connections that wait at the door.
type guarded struct {
	net.Listener
	door *door
}

func (g guarded) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return visitor{c, g.door}, nil
}

type visitor struct {
	net.Conn
	door *door
}

// Read waits with what it has read, so that not even the TLS of a new connection is answered.
func (v visitor) Read(b []byte) (int, error) {
	n, err := v.Conn.Read(b)
	if !v.door.wait() {
		_ = v.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// count counts the calls that were to change something.
func (d *door) count(c pvesim.Call) {
	if c.Method == http.MethodGet {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.orders++
}

// writes is how many calls there were that were to change something.
func (d *door) writes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.orders
}
