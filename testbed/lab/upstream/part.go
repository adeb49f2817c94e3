package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/plimsoll/plimsoll/grpc/externalgrpc"
	nodepolicy "github.com/plimsoll/plimsoll/nodescaler/policy"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

// Part is the client as a part of a lab, in the process that runs the lab. It scans from its start
// on.
type Part struct {
	// Address is the provider's, and Certificates the folder with the client's set: ca.crt,
	// client.crt and client.key.
	Address, Certificates string
	Unneeded              Flags
	Expander              Expander

	client *Client
}

// Flags are cluster-autoscaler's, as far as the policy that plays it has them.
type Flags = nodepolicy.Unneeded

// DefaultFlags are its defaults.
func DefaultFlags() Flags { return nodepolicy.DefaultUnneeded() }

// Scans is how many scans came to their end.
func (p *Part) Scans() int { return int(p.client.scans.Load()) }

// Evictions is how many pods were asked to go.
func (p *Part) Evictions() int { return int(p.client.evictions.Load()) }

// PartName is the part's name.
const PartName = "cluster-autoscaler"

// Name is the part's name.
func (*Part) Name() string { return PartName }

// Start reaches the provider and the cluster, and begins to scan.
func (p *Part) Start(ctx context.Context, l *lab.Lab) (*lab.Running, error) {
	credentials, err := p.credentials()
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(p.Address, grpc.WithTransportCredentials(credentials))
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(l.Log(p.Name()), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	up := &running{conn: conn, log: out, ended: make(chan error, 1)}
	if err := p.start(ctx, l, up); err != nil {
		return nil, errors.Join(err, up.stop(ctx))
	}
	return &lab.Running{Ended: up.ended, Stop: up.stop}, nil
}

func (p *Part) start(ctx context.Context, l *lab.Lab, up *running) error {
	cluster, err := NewKubernetes(l.REST(), p.Unneeded.CapacityBufferPodInjectionEnabled)
	if err != nil {
		return err
	}
	logger := log.New(up.log, "", log.LstdFlags|log.Lmicroseconds)
	p.client, err = New(Config{
		Provider: externalgrpc.NewCloudProviderClient(up.conn), Cluster: cluster, Unneeded: p.Unneeded, Expander: p.Expander, Now: time.Now, Log: logger.Printf,
	})
	if err != nil {
		return err
	}
	going, cancel := context.WithCancel(context.Background())
	up.cancel = cancel
	up.parts.Go(func() {
		if err := cluster.Run(going); err != nil {
			up.ended <- err
		}
	})
	if err := p.begin(ctx, cluster); err != nil {
		return err
	}
	up.parts.Go(func() { p.client.run(going, cluster.Wake()) })
	return nil
}

// running is what goes on until the part is stopped.
type running struct {
	conn   *grpc.ClientConn
	log    *os.File
	cancel context.CancelFunc // nil while nothing goes on
	parts  sync.WaitGroup
	ended  chan error
}

func (r *running) stop(context.Context) error {
	if r.cancel != nil {
		r.cancel()
	}
	r.parts.Wait()
	return errors.Join(r.conn.Close(), r.log.Close())
}

// begin waits until both sides are seen.
func (p *Part) begin(ctx context.Context, cluster *Kubernetes) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := cluster.Synced(ctx); err != nil {
		return err
	}
	for {
		err := p.client.Begin(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the provider at %s: %w", p.Address, err)
		case <-time.After(250 * time.Millisecond):
		}
	}
}

// run scans until the context is done: after each interval, and sooner, if that is enabled, when a
// pod turns unschedulable or machines have just been ordered.
func (c *Client) run(ctx context.Context, wake <-chan struct{}) {
	if !c.cfg.Unneeded.FrequentLoopsEnabled {
		wake = nil
	}
	for ctx.Err() == nil {
		began := c.cfg.Now()
		ordered, err := c.Once(ctx)
		switch {
		case err == nil:
			c.scans.Add(1)
		case ctx.Err() == nil:
			c.cfg.Log("the scan ended: %v", err)
		}
		pause := time.Duration(c.cfg.Unneeded.ScanInterval) - c.cfg.Now().Sub(began)
		if ordered && c.cfg.Unneeded.FrequentLoopsEnabled {
			pause = 0
		}
		select {
		case <-ctx.Done():
		case <-wake:
		case <-time.After(pause):
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if err := c.End(ending); err != nil {
		c.cfg.Log("%v", err)
	}
}

// credentials are the set that a provider makes for its client.
func (p *Part) credentials() (credentials.TransportCredentials, error) {
	in := func(name string) string { return filepath.Join(p.Certificates, name) }
	pair, err := tls.LoadX509KeyPair(in("client.crt"), in("client.key"))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(in("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate", in("ca.crt"))
	}
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots, MinVersion: tls.VersionTLS13}), nil
}
