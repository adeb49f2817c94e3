package main

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// startEtcd starts a store of one member, and returns its address and how to end it.
func (p *plane) startEtcd(ctx context.Context) (address string, stop func(), err error) {
	if err := p.pki.server("etcd", p.ca); err != nil {
		return "", nil, err
	}
	anyPort := []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	tls := transport.TLSInfo{
		CertFile: p.pki.cert("etcd"), KeyFile: p.pki.key("etcd"), TrustedCAFile: p.pki.cert("ca"), ClientCertAuth: true,
	}
	cfg := embed.NewConfig()
	cfg.Name = "lab"
	cfg.Dir = filepath.Join(p.folder, "etcd")
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls, cfg.ClientTLSInfo = anyPort, anyPort, tls
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls, cfg.PeerTLSInfo = anyPort, anyPort, tls
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.LogLevel = "warn"
	cfg.LogOutputs = []string{"stderr"}
	cfg.EnableGRPCGateway = false
	// A lab need not outlive a power cut; what it wrote outlives its process.
	cfg.UnsafeNoFsync = true
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return "", nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return "https://" + e.Clients[0].Addr().String(), e.Close, nil
	case err = <-e.Err():
	case <-e.Server.StopNotify():
		err = fmt.Errorf("it stopped while it started")
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	e.Close()
	return "", nil, fmt.Errorf("etcd: %w", err)
}
