package pvesim

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// serve listens for a host of the cluster, and returns where, and a configuration that trusts it.
func serve(t *testing.T, c *Cluster, host string) (string, *tls.Config) {
	cert, _, err := SelfSigned("127.0.0.1", host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Serve(l, host, &tls.Config{Certificates: []tls.Certificate{cert}}) }()
	t.Cleanup(func() {
		_ = l.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	roots := x509.NewCertPool()
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots.AddCert(leaf)
	return l.Addr().String(), &tls.Config{RootCAs: roots}
}

func TestServesOverTLSWithTheStatusLinesOfTheServer(t *testing.T) {
	c := newCluster(t, nil)
	root := c.Token("root@pam", "t1", false)
	addr, trust := serve(t, c, "pve2")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for path, want := range map[string]string{
		"/api2/json/version":                    "200 OK",
		"/api2/json/nope":                       "501 Method 'GET /nope' not implemented",
		"/api2/json/nodes/nosuch/status":        "500 hostname lookup 'nosuch' failed - failed to get address info for: nosuch: Temporary failure in name resolution",
		"/api2/json/version?foo=1":              "400 Parameter verification failed.",
		"/api2/json/access/roles?a=%0d%0aX:%20": "400 Parameter verification failed.",
	} {
		req, err := http.NewRequest("GET", "https://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "PVEAPIToken="+root)
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		if resp.Status != want || resp.ProtoMajor != 1 {
			t.Errorf("%s: got %s over %s, want %s over HTTP/1.1", path, resp.Status, resp.Proto, want)
		}
	}
}

func TestHostsTellTheFingerprintTheyAreServedWith(t *testing.T) {
	c := newCluster(t, nil)
	root := c.Token("root@pam", "t1", false)
	addr, trust := serve(t, c, "pve1")
	conn, err := tls.Dial("tcp", addr, trust)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	served := Fingerprint(tls.Certificate{Certificate: [][]byte{conn.ConnectionState().PeerCertificates[0].Raw}})
	if _, body := ask(t, c, root, "GET", "/nodes", ""); !strings.Contains(body, served) {
		t.Errorf("%s says nothing of %s", body, served)
	}
}

func TestPlainHTTPIsSentToTLS(t *testing.T) {
	c := newCluster(t, nil)
	addr, _ := serve(t, c, "pve1")
	for method, want := range map[string]string{"GET": "301 Moved Permanently", "POST": "308 Permanent Redirect"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "%s /api2/json/version?a=1 HTTP/1.1\r\nHost: 10.99.0.1:8006\r\n\r\n", method)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get("Location"); resp.Status != want || got != "https://10.99.0.1:8006/api2/json/version?a=1" || string(body) != want[4:] {
			t.Errorf("%s: got %s to %s with %q", method, resp.Status, got, body)
		}
		_ = conn.Close()
	}
}

// talk has a conversation with a host over a pipe, and returns the client's end.
func talk(t *testing.T, c *Cluster) (net.Conn, *bufio.Reader) {
	client, server := net.Pipe()
	go func() {
		defer func() { _ = server.Close() }()
		c.converse(patient{server}, c.Nodes[0])
	}()
	t.Cleanup(func() { _ = client.Close() })
	return client, bufio.NewReader(client)
}

// say sends a request and returns the answer's status line, or how the connection ended.
func say(conn net.Conn, r *bufio.Reader, lines ...string) (string, error) {
	if _, err := io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.Status, err
}

func TestConnectionsEndAfterAHundredRequests(t *testing.T) {
	c := newCluster(t, nil)
	token := "Authorization: PVEAPIToken=" + c.Token("root@pam", "t1", false)
	conn, r := talk(t, c)
	n := 0
	for ; n < 200; n++ {
		if status, err := say(conn, r, "GET /api2/json/version HTTP/1.1", "Host: a", token); err != nil || status != "200 OK" {
			break
		}
	}
	if n != 100 {
		t.Errorf("%d requests were answered, want 100", n)
	}
}

func TestConnectionsEndWhenNothingIsSaidForFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		token := "Authorization: PVEAPIToken=" + c.Token("root@pam", "t1", false)
		conn, r := talk(t, c)
		for i, wait := range []time.Duration{0, 4 * time.Second, 6 * time.Second} {
			time.Sleep(wait)
			status, err := say(conn, r, "GET /api2/json/version HTTP/1.1", "Host: a", token)
			if lost := err != nil; lost != (i == 2) {
				t.Errorf("after %s: %s, %v", wait, status, err)
			}
		}
	})
}

func TestWhatIsSaidWrongIsAnswered(t *testing.T) {
	c := newCluster(t, nil)
	token := "Authorization: PVEAPIToken=" + c.Token("root@pam", "t1", false)
	many := strings.TrimSuffix(strings.Repeat("A: b\r\n", 70), "\r\n")
	for _, test := range []struct {
		lines []string
		want  string // empty if there is no answer
	}{
		{[]string{"hello"}, "400 bad request"},
		{[]string{"GET / HTTP/2.0"}, "506 http protocol version 2.0 not supported"},
		{[]string{"GET user@host/ HTTP/1.1"}, "400 invalid url"},
		{[]string{"GET /api2/json/version HTTP/1.1", "no header"}, "506 unable to parse request header"},
		{[]string{"GET /index.html HTTP/1.1"}, "501 no such file '/index.html'"},
		{[]string{"GET /api2 HTTP/1.1"}, "501 no such uri"},
		{[]string{"GET /api2/html/version HTTP/1.1", token}, "501 no formatter for uri /version, html"},
		{[]string{"OPTIONS /api2/json/version HTTP/1.1"}, "501 method 'OPTIONS' not available"},
		{[]string{"POST /api2/json/pools HTTP/1.1", token, "Transfer-Encoding: chunked"}, "501 chunked transfer encoding not supported"},
		{[]string{"POST /api2/json/pools HTTP/1.1", token, "Content-Length: 600000"}, "501 for data too large"},
		{[]string{"DELETE /api2/json/pools HTTP/1.1", token, "Content-Length: 0"}, "400 Parameter verification failed."},
		{[]string{"GET /api2/json/version HTTP/1.1", many}, ""},
		{[]string{"GET /api2/json/version HTTP/1.1", "A: " + strings.Repeat("x", 9000)}, ""},
	} {
		conn, r := talk(t, c)
		status, err := say(conn, r, test.lines...)
		if status != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%s: got %q, %v, want %q", test.lines[0], status, err, test.want)
		}
	}
}
