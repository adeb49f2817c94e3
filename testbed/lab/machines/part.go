package machines

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/client-go/kubernetes"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
	"github.com/plimsoll/plimsoll/proxmox/settings"
	"github.com/plimsoll/plimsoll/proxmox/timing"
	"github.com/plimsoll/plimsoll/testbed/lab"
)

// Part is the Proxmox VE of a lab. Its endpoints are its hosts, by name, and "site": the
// configuration to run Plimsoll with, which it leaves in its folder with all that it names.
//
// While it is stopped its API does not answer and its time does not pass, but the machines that run
// are not lost.
type Part struct {
	Hosts int     // how many there are; 3 if zero
	Speed float64 // how fast its time passes; 1 is real time, and so is 0
	Seed  uint64
	Times timing.Machine // how long things take, by its own time; those of a small cluster if zero
	// Templates are further templates by VMID, which Plimsoll may clone. They are like the lab's
	// own but for what is on their disk: system, or none, of which no machine boots.
	Templates map[int]string
	// Guests run the machines, if given. What is in them joins by itself, or does not.
	Guests pvesim.Guests
	// Site changes what is written of the site, if given. Rights are given for what it has become.
	Site func(*settings.Site)

	emulated  *pvesim.Cluster
	addresses []string // of the hosts, once they have one
	folder    string
}

// PartName is the name of the part.
const PartName = "pve"

// Name is the part's name.
func (*Part) Name() string { return PartName }

func (p *Part) hosts() int {
	if p.Hosts == 0 {
		return 3
	}
	return p.Hosts
}

func (p *Part) speed() float64 {
	if p.Speed == 0 {
		return 1
	}
	return p.Speed
}

// Cluster is the emulated cluster, to put faults into or to look at. It is another one after each
// start, and nil while none exists.
func (p *Part) Cluster() *pvesim.Cluster { return p.emulated }

// SiteFile is the configuration for plimsoll run; empty before the first start.
func (p *Part) SiteFile() string {
	if p.folder == "" {
		return ""
	}
	return filepath.Join(p.folder, siteFile)
}

// Start serves the hosts, and lets machines become nodes.
func (p *Part) Start(_ context.Context, l *lab.Lab) (*lab.Running, error) {
	client, err := kubernetes.NewForConfig(l.REST())
	if err != nil {
		return nil, err
	}
	if p.folder, err = l.Folder(p.Name()); err != nil {
		return nil, err
	}
	certificate, fingerprint, err := keptCertificate(p.folder)
	if err != nil {
		return nil, err
	}
	join, err := keptToken(p.folder)
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(l.Log(p.Name()), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err := p.open(); err != nil {
		return nil, errors.Join(err, out.Close())
	}
	up := &serving{part: p, cluster: p.emulated, log: out, failed: make(chan error, 1)}
	if err := p.serve(up, certificate); err != nil {
		return nil, errors.Join(err, up.stop())
	}
	if err := p.settle(l, fingerprint); err != nil {
		return nil, errors.Join(err, up.stop())
	}
	if p.Guests == nil {
		k := newKubelets(client, join, log.New(out, "", log.LstdFlags|log.Lmsgprefix))
		p.emulated.OnBoot(k.booted)
		p.emulated.OnHalt(k.halted)
		up.goOn(k.run)
	}
	return &lab.Running{
		Endpoints: append(p.endpoints(), lab.Endpoint{Name: "site", URL: "file://" + p.SiteFile()}), Ended: up.failed,
		Stop: func(context.Context) error { return up.stop() },
	}, nil
}

// open makes the cluster, or goes on with the one that was saved.
func (p *Part) open() error {
	saved, err := readFile(p.folder, clusterFile)
	if err != nil {
		return err
	}
	if saved != nil {
		p.emulated, err = pvesim.Load(bytes.NewReader(saved), pvesim.Config{Speed: p.speed(), Times: p.Times})
	} else {
		p.emulated, err = pvesim.New(p.cluster())
	}
	return err
}

// settle gives Plimsoll its rights, and writes the site.
func (p *Part) settle(l *lab.Lab, fingerprint string) error {
	var urls []string
	for _, e := range p.endpoints() {
		urls = append(urls, e.URL)
	}
	site := p.site(p.folder, urls, fingerprint)
	token, err := setUp(p.emulated, p.withTemplates(site))
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if token != "" {
		if err := writeFile(p.folder, tokenFile, []byte(token+"\n")); err != nil {
			return err
		}
	}
	return writeSite(p.folder, l.Kubeconfig(), site)
}

func (p *Part) endpoints() []lab.Endpoint {
	var all []lab.Endpoint
	for i, name := range p.emulated.Hosts() {
		all = append(all, lab.Endpoint{Name: name, URL: "https://" + p.addresses[i]})
	}
	return all
}

// serve listens for every host, where it did before if it did.
func (p *Part) serve(up *serving, certificate tls.Certificate) error {
	names := p.emulated.Hosts()
	if p.addresses == nil {
		p.addresses = make([]string, len(names))
		for i := range names {
			var err error
			if p.addresses[i], err = lab.FreeAddress(); err != nil {
				return err
			}
		}
	}
	for i, name := range names {
		on, err := net.Listen("tcp", p.addresses[i])
		if err != nil {
			return err
		}
		up.serve(on, name, certificate)
	}
	return nil
}

// keptCertificate is what the hosts are served with, the same as long as there is the folder, so
// that its fingerprint may be written down.
func keptCertificate(folder string) (tls.Certificate, string, error) {
	text, err := readFile(folder, certFile)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	if text == nil {
		if text, err = makeCertificate(folder); err != nil {
			return tls.Certificate{}, "", err
		}
	}
	key, err := readFile(folder, keyFile)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	certificate, err := tls.X509KeyPair(text, key)
	if err != nil {
		return certificate, "", err
	}
	return certificate, pvesim.Fingerprint(certificate), nil
}

func makeCertificate(folder string) ([]byte, error) {
	certificate, _, err := pvesim.SelfSigned("127.0.0.1", "localhost")
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(certificate.PrivateKey)
	if err != nil {
		return nil, err
	}
	if err := writeFile(folder, keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	return text, writeFile(folder, certFile, text) // last: with it the set is whole
}

// keptToken is what machines join with.
func keptToken(folder string) (string, error) {
	kept, err := readFile(folder, joinTokenFile)
	if err != nil || kept != nil {
		return string(bytes.TrimSpace(kept)), err
	}
	token := "K10lab::server:" + rand.Text()
	return token, writeFile(folder, joinTokenFile, []byte(token+"\n"))
}

// serving is what goes on until the part is stopped.
type serving struct {
	part      *Part
	cluster   *pvesim.Cluster
	listeners []*door
	log       *os.File
	cancel    context.CancelFunc
	running   sync.WaitGroup
	failed    chan error
}

func (s *serving) serve(on net.Listener, host string, certificate tls.Certificate) {
	d := &door{Listener: on, open: map[net.Conn]bool{}}
	s.listeners = append(s.listeners, d)
	s.running.Go(func() {
		err := s.cluster.Serve(d, host, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
		if err == nil {
			return
		}
		select {
		case s.failed <- err:
		default: // one reason is enough
		}
	})
}

func (s *serving) goOn(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.running.Go(func() { run(ctx) })
}

// stop hangs up on everybody, and saves the cluster with all that is in it.
func (s *serving) stop() error {
	for _, d := range s.listeners {
		d.hangUp()
	}
	var saved bytes.Buffer
	err := s.cluster.Save(&saved)
	s.cluster.Close()
	if s.cancel != nil {
		s.cancel()
	}
	s.running.Wait()
	s.part.emulated = nil
	if err == nil {
		err = writeFile(s.part.folder, clusterFile, saved.Bytes())
	}
	return errors.Join(err, s.log.Close())
}

// door is a listener that can hang up.
type door struct {
	net.Listener
	mu   sync.Mutex
	open map[net.Conn]bool // nil once it has hung up
}

// Accept lets a client in.
func (d *door) Accept() (net.Conn, error) {
	conn, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open == nil {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	d.open[conn] = true
	return &guest{conn, d}, nil
}

func (d *door) hangUp() {
	_ = d.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.open {
		_ = conn.Close()
	}
	d.open = nil
}

// guest is a connection that its door knows of.
type guest struct {
	net.Conn
	door *door
}

// Close closes it.
func (g *guest) Close() error {
	g.door.mu.Lock()
	delete(g.door.open, g.Conn)
	g.door.mu.Unlock()
	return g.Conn.Close()
}
