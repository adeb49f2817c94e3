// Command agent is what a machine joins with where there is no cluster: a stand-in for the agents
// of RKE2 and k3s, by the name that it is run by. It reads what they read, by their rules, fails
// where they fail, proves itself to its server as they do, and sends it what it has understood. It
// runs no kubelet.
package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// node is what an agent has understood.
type node struct {
	Name       string
	UUID       string // of the machine's SMBIOS, as a kubelet reads it
	Settings   settings
	Registries *registries
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "level=fatal msg=%q\n", err)
		os.Exit(1)
	}
	<-ctx.Done()
}

func run(ctx context.Context) error {
	kind := filepath.Base(os.Args[0])
	if len(os.Args) != 2 || os.Args[1] != "agent" || kinds[kind] == nil {
		return fmt.Errorf("must be run as rke2 agent or k3s agent, was %q", os.Args)
	}
	s, err := read(kind, os.Getenv)
	if err != nil {
		return err
	}
	n := node{Name: s.one("node-name"), Settings: s}
	if n.Name == "" {
		if n.Name, err = os.Hostname(); err != nil {
			return err
		}
	}
	n.Name = strings.ToLower(n.Name)
	uuid, err := os.ReadFile("/sys/class/dmi/id/product_uuid")
	if err != nil {
		return err
	}
	n.UUID = strings.TrimSpace(string(uuid))
	if n.Registries, err = readRegistries(cmp.Or(s.one("private-registry"), "/etc/rancher/"+kind+"/registries.yaml")); err != nil {
		return err
	}
	if err := join(ctx, kind, &n); err != nil {
		return err
	}
	return ready()
}

// join proves itself to the server, after the server has to it, and sends what it has understood.
func join(ctx context.Context, kind string, n *node) error {
	server, c, err := n.Settings.one("server"), credentials{}, error(nil)
	if !strings.HasPrefix(server, "https://") {
		return errors.New("only https:// URLs are supported, invalid scheme: " + server)
	}
	if c, err = parse(n.Settings.one("token")); err != nil {
		return err
	}
	client := &http.Client{Timeout: 10 * time.Second}
	if _, err := call(ctx, client, http.MethodGet, server+"/cacerts", credentials{}, nil); err != nil {
		if client, err = trusting(ctx, server, c.hash); err != nil {
			return err
		}
	}
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	_, err = call(ctx, client, http.MethodPut, server+"/v1-"+kind+"/node", c, text)
	return err
}

// trusting is a client for the authority that the server shows, which must be the token's.
func trusting(ctx context.Context, server, hash string) (*http.Client, error) {
	of := func(c *tls.Config) *http.Client {
		return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: c}}
	}
	authority, err := call(ctx, of(&tls.Config{InsecureSkipVerify: true}), http.MethodGet, server+"/cacerts", credentials{}, nil) //nolint:gosec // by its hash
	if err != nil {
		return nil, fmt.Errorf("failed to get CA certs: %w", err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(authority)); hash != "" && got != hash {
		return nil, fmt.Errorf("token CA hash does not match the Cluster CA certificate hash: %s != %s", hash, got)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return of(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), nil
}

func call(ctx context.Context, client *http.Client, method, url string, c credentials, body []byte) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	switch {
	case c.bearer != "":
		r.Header.Set("Authorization", "Bearer "+c.bearer)
	case c.user != "":
		r.SetBasicAuth(c.user, c.password)
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %s", url, answer.Status)
	}
	return text, nil
}

// ready says so to systemd, whose units wait for it.
func ready() error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	_, err = conn.Write([]byte("READY=1"))
	return errors.Join(err, conn.Close())
}
