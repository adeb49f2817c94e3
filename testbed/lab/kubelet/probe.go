package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// probe asks the process, until the context is done, whether it is ready and whether it is well. It
// returns what is closed when it is not.
func (c *container) probe(ctx context.Context) <-chan struct{} {
	unfit := make(chan struct{})
	var once sync.Once
	if p := c.spec.ReadinessProbe; p != nil {
		go c.asking(ctx, p, false, func(ready bool) { c.change(func() { c.ready = ready && ctx.Err() == nil }) })
	}
	if p := c.spec.LivenessProbe; p != nil {
		go c.asking(ctx, p, true, func(well bool) {
			if !well && ctx.Err() == nil {
				c.pod.k.log.Printf("pod %s/%s: %s is not well", c.pod.namespace, c.pod.name, c.spec.Name)
				once.Do(func() { close(unfit) })
			}
		})
	}
	return unfit
}

// asking reports whenever what the answers come to changes.
func (c *container) asking(ctx context.Context, p *corev1.Probe, good bool, report func(bool)) {
	or := func(n, otherwise int32) int { return int(max(n, otherwise)) }
	period := time.Duration(or(p.PeriodSeconds, 1)) * time.Second
	wait := time.Duration(p.InitialDelaySeconds) * time.Second
	if wait == 0 {
		wait = min(period, 100*time.Millisecond) // not before anybody can answer
	}
	for against := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = period
		if !good {
			wait = min(period, time.Second) // while it is not ready, people wait
		}
		if (c.ask(ctx, p) == nil) == good {
			against = 0
			continue
		}
		against++
		if good && against >= or(p.FailureThreshold, 1) || !good && against >= or(p.SuccessThreshold, 1) {
			good, against = !good, 0
			report(good)
		}
	}
}

// client asks as kubelets do: whose certificate it is does not matter, and no one is between.
var client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}

// ask asks once.
func (c *container) ask(ctx context.Context, p *corev1.Probe) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	get := p.HTTPGet
	host, scheme := get.Host, "http"
	if host == "" {
		host = c.pod.ip
	}
	if get.Scheme == corev1.URISchemeHTTPS {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+net.JoinHostPort(host, strconv.Itoa(c.portOf(get.Port)))+get.Path, nil)
	if err != nil {
		return err
	}
	for _, h := range get.HTTPHeaders {
		req.Header.Set(h.Name, h.Value)
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }() // what it says does not matter
	if res.StatusCode < 200 || res.StatusCode >= 400 {
		return fmt.Errorf("%s", res.Status)
	}
	return nil
}

// portOf is the number of a port, by its name if it has one.
func (c *container) portOf(port intstr.IntOrString) int {
	for _, p := range c.spec.Ports {
		if port.Type == intstr.String && p.Name == port.StrVal {
			return int(p.ContainerPort)
		}
	}
	return port.IntValue()
}
