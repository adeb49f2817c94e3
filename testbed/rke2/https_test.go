package rke2

import (
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// speed is how fast the emulated cluster's time passes where it follows the wall clock.
const speed = 200

// The same as in memory, by sockets, certificates, files and a clock that does not wait.
func TestTestBedIsBuiltOverHTTPSWithItsStateOnDisk(t *testing.T) {
	w := newWorld(t, func(c *pvesim.Config) { c.Speed = speed })
	t.Cleanup(w.sim.Close)
	w.serve()
	wait := func(ctx context.Context, d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d / speed):
			return nil
		}
	}
	folder := filepath.Join(t.TempDir(), "bench")
	begin := func() *Bench {
		b := must.Get(New(Config{
			Site: w.site, Store: Folder(folder), Now: w.sim.Now, Wait: wait, Rand: rand.New(rand.NewPCG(1, 1)),
			Connection: pveapi.Connection{
				Endpoints: w.site.Endpoints, Fingerprint: strings.Join(w.site.Fingerprints, ","), Now: w.sim.Now, Wait: wait,
				Token: func() (string, error) { return w.token, nil },
			},
			Kubernetes: func([]byte) (Kubernetes, error) { return w.net, nil },
			Report:     func(line string) { w.lines = append(w.lines, line) },
		}))(t)
		t.Cleanup(b.Close)
		return b
	}
	ctx, end := context.WithCancel(t.Context())
	w.sim.OnCall(func(c pvesim.Call) {
		if strings.HasSuffix(c.Path, "/status/start") {
			end() // as at ^C when the first machine starts
		}
	})
	if err := begin().Up(ctx); err == nil {
		t.Fatal("it was not ended")
	}
	w.sim.OnCall(nil)
	if err := begin().Up(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(w.lines, "\n"))
	}
	if diff := cmp.Diff(whole, w.nodes()); diff != "" {
		t.Error(diff)
	}
	if err := begin().Down(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(w.lines, "\n"))
	}
	if left := w.left(); len(left) > 0 {
		t.Errorf("this is left: %q", left)
	}
	if files, _ := filepath.Glob(folder); len(files) > 0 {
		t.Error("the folder is left")
	}
}

// serve lets the cluster be reached over HTTPS on this machine, by its hosts' fingerprints.
func (w *world) serve() {
	w.t.Helper()
	w.site.Endpoints, w.site.Insecure = nil, false
	for _, host := range w.sim.Hosts() {
		l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(w.t)
		w.t.Cleanup(func() { _ = l.Close() })
		cert, shown, err := pvesim.SelfSigned("127.0.0.1")
		if err != nil {
			w.t.Fatal(err)
		}
		go func() {
			_ = w.sim.Serve(l, host, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
		}()
		w.site.Endpoints = append(w.site.Endpoints, "https://"+l.Addr().String())
		w.site.Fingerprints = append(w.site.Fingerprints, shown)
	}
}
