package testbedverb

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// kept are files that a program writes and reads again.
type kept struct {
	mu    sync.Mutex
	files map[string]*bytes.Buffer
}

func (k *kept) read(name string) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if b := k.files[name]; b != nil {
		return b.Bytes(), nil
	}
	return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
}

type keptFile struct{ *bytes.Buffer }

func (keptFile) Close() error { return nil }

func (k *kept) create(name string) (io.WriteCloser, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.files[name] = &bytes.Buffer{}
	return keptFile{k.files[name]}, nil
}

// served is the program while it serves a cluster.
type served struct {
	reach
	client *http.Client
	stop   func() (stderr string, code int)
}

func serveLab(t *testing.T, files *kept, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, &cli.Env{
			Args: append([]string{"testbed", "pve", "--listen", "127.0.0.1:0", "-o", "json"}, args...), Stdin: strings.NewReader(""), Stdout: in, Stderr: &errs,
			Getenv: func(string) string { return "" }, ReadFile: files.read, Create: files.create, Now: time.Now,
			Exit: func(int) { t.Error("run exits by itself") },
		})
		_ = in.CloseWithError(errors.New(errs.String()))
	}()
	s := &served{}
	if err := json.NewDecoder(out).Decode(&s.reach); err != nil {
		cancel()
		t.Fatalf("it says %v", err)
	}
	s.client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: pinned(s.Fingerprint)}}
	s.stop = sync.OnceValues(func() (string, int) {
		s.client.CloseIdleConnections()
		cancel()
		n := <-code
		return errs.String(), n
	})
	t.Cleanup(func() { s.stop() })
	return s
}

// pinned trusts the certificate of a fingerprint and no other.
func pinned(fingerprint string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // it is verified below
		VerifyPeerCertificate: func(certs [][]byte, _ [][]*x509.Certificate) error {
			if got := strings.ReplaceAll(fmt.Sprintf("% X", sha256.Sum256(certs[0])), " ", ":"); got != fingerprint {
				return fmt.Errorf("the certificate's fingerprint is %s, want %s", got, fingerprint)
			}
			return nil
		},
	}
}

// call makes a call of one of the hosts.
func (s *served) call(t *testing.T, host int, method, path, form string) (status, body string) {
	t.Helper()
	req := must.Get(http.NewRequest(method, s.Hosts[host].URL+"/api2/json"+path, strings.NewReader(form)))(t)
	req.Header.Set("Authorization", "PVEAPIToken="+s.Token)
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp := must.Get(s.client.Do(req))(t)
	defer func() { _ = resp.Body.Close() }()
	text := must.Get(io.ReadAll(resp.Body))(t)
	return resp.Status, string(text)
}

func TestEmulatedClusterIsServedAndSaved(t *testing.T) {
	files := &kept{files: map[string]*bytes.Buffer{"faults.txt": bytes.NewBufferString("fail start nth=1 # once\n")}}
	s := serveLab(t, files, "--speed", "1000", "--state", "lab.json", "--faults", "faults.txt", "-v")
	if len(s.Hosts) != 3 {
		t.Fatalf("there are %d hosts", len(s.Hosts))
	}
	status, body := s.call(t, 1, "POST", fmt.Sprintf("/nodes/pve1/qemu/%d/clone", s.Template), "newid=400&name=first&pool="+s.Pool)
	if status != "200 OK" {
		t.Fatalf("a clone: %s %s", status, body)
	}
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(body, `"name":"first"`) {
		if time.Now().After(deadline) {
			t.Fatalf("the clone is not there: %s", body)
		}
		time.Sleep(10 * time.Millisecond)
		_, body = s.call(t, 2, "GET", "/nodes/pve1/qemu/400/status/current", "")
	}
	stderr, code := s.stop()
	if code != cli.ExitDone || !strings.Contains(stderr, "pve2 POST /nodes/pve1/qemu/9000/clone: 200 OK") || !strings.Contains(stderr, "the cluster is saved in lab.json") {
		t.Errorf("it exits with %d, and says %s", code, stderr)
	}

	again := serveLab(t, files, "--speed", "1000", "--state", "lab.json")
	if again.Token != s.Token {
		t.Errorf("the token is %s, and was %s", again.Token, s.Token)
	}
	if status, _ := again.call(t, 0, "GET", "/nodes/pve1/qemu/400/config", ""); status != "200 OK" {
		t.Errorf("after a new start the clone answers %s", status)
	}
	again.stop()
	if stderr, code := refused(t, "testbed", "pve", "--state", "none.json", "--listen", "127.0.0.1:x"); code != cli.ExitUsage {
		t.Errorf("a bad address: %d %s", code, stderr)
	}
}

func TestPortThatIsTakenIsToldOf(t *testing.T) {
	s := serveLab(t, &kept{files: map[string]*bytes.Buffer{}})
	stderr, code := refused(t, "testbed", "pve", "--hosts", "1", "--listen", strings.TrimPrefix(s.Hosts[0].URL, "https://"))
	if code != cli.ExitUnreachable || !strings.Contains(stderr, "address already in use") {
		t.Errorf("it exits with %d: %s", code, stderr)
	}
}
