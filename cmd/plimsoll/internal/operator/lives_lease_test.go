package operator

import (
	"context"
	"net/http"
	"time"

	"github.com/plimsoll/plimsoll/grpc/provider"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// process is one of two of Plimsoll. Only the one that holds the lease may make requests.
type process struct {
	*life
	name    string
	client  *pveapi.Client
	intents intents.Store
	server  *provider.Server // for cluster-autoscaler, if there is one
	left    int              // requests until it loses the lease; 0 is never
	drops   bool             // it does not get the answer to the last of them
	seat    *seat            // of Kubernetes, if there is an API server
}

// RoundTrip makes a request to Proxmox VE, after the last of which the term ends.
func (p *process) RoundTrip(req *http.Request) (*http.Response, error) {
	if p.catchUp(); req.Method != http.MethodGet {
		p.take()
	}
	if p.leads != p || p.ctx.Err() != nil {
		p.fault("%s sends %s %s, and does not lead", p.name, req.Method, req.URL.Path)
	}
	resp, err := p.sim.Transport().RoundTrip(req)
	if p.left == 0 {
		return resp, err
	}
	if p.left--; p.left > 0 {
		return resp, err
	}
	p.note("%s LOSES THE LEASE AFTER %s %s", p.name, req.Method, req.URL.Path)
	p.end()
	if p.drops && err == nil {
		_ = resp.Body.Close()
		return nil, context.Canceled
	}
	return resp, err
}

// passOn has the other process lead when the lease was lost, soon.
func (l *life) passOn() {
	if l.ctx.Err() == nil {
		return
	}
	if l.api != nil {
		l.api.passOn()
		return
	}
	for _, p := range l.processes {
		if p != l.leads {
			l.leads = p
			break
		}
	}
	l.down = l.sim.Now().Add(15 * time.Second)
	l.note("%s LEADS", l.leads.name)
	if err := l.start(); err != nil {
		l.fault("%s does not start: %v", l.leads.name, err)
	}
}
