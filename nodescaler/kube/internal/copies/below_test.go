package copies

import (
	"io"
	"log/slog"
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// endless answers every request with a watch that brings nothing and does not end.
type endless struct{ paths []string }

func (e *endless) RoundTrip(r *http.Request) (*http.Response, error) {
	e.paths = append(e.paths, r.URL.Path)
	body, _ := io.Pipe()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: r}, nil
}

// The API may be served below a path, as by Rancher: its watches are those of the same kinds.
func TestWatchesBelowAPathAreFollowed(t *testing.T) {
	for host, at := range map[string]string{
		"https://api:6443": path, "https://rancher/k8s/clusters/c-m-xyz": "/k8s/clusters/c-m-xyz" + path, "https://rancher/k8s/clusters/c-m-xyz/": "/k8s/clusters/c-m-xyz" + path,
	} {
		c := must.Get(New(&rest.Config{Host: host}, Options{Log: slog.New(slog.DiscardHandler)}))(t)
		server := &endless{}
		c.watches.next = server
		c.watches.follow(path, func() (string, bool) { return "1", true })
		watch := must.Get(c.Client.CoreV1().Pods("").Watch(t.Context(), metav1.ListOptions{}))(t)
		if open := c.watches.at(path).open; open != 1 || server.paths[0] != at {
			t.Errorf("%s: %d watches are open, asked for %v, want %s", host, open, server.paths, at)
		}
		watch.Stop()
	}
}
