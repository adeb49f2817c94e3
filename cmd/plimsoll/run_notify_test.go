package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/notify"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// A secret that is rotated while the process runs counts from the next notice on.
func TestRotatedSecretsOfReceiversAreRead(t *testing.T) {
	t.Parallel()
	heard := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		heard <- r.URL.Path + " " + r.Header.Get("Authorization")
	}))
	defer server.Close()
	files := fstest.MapFS{
		"config.yaml": {Data: []byte("{owner: home, endpoints: ['https://127.0.0.1:1'], tokenFile: token, insecure: true, state: kubernetes, namespace: plimsoll, notifications: [{name: ops, all: true, urlFile: url, tokenFile: bearer}]}")},
		"token":       someSite["token"], "url": {Data: []byte(server.URL + "/a\n")}, "bearer": {Data: []byte("one\n")},
	}
	r := &clusterRun{running: must.Get(readRunning(someEnv(files), "config.yaml", components))(t)}
	s := must.Get(r.notifier())(t)
	done := make(chan bool)
	s.Done = func(_ string, arrived bool) { done <- arrived }
	go s.Run(t.Context())
	for _, want := range []string{"/a Bearer one", "/b Bearer two"} {
		s.Tell(nil, notify.Notice{Kind: "VMPool", Name: "web", Condition: "Conflicted", Status: notify.Firing})
		if arrived := <-done; !arrived {
			t.Fatal("a notice was given up")
		}
		if got := <-heard; got != want {
			t.Errorf("it was sent to %q, want %q", got, want)
		}
		files["url"], files["bearer"] = &fstest.MapFile{Data: []byte(server.URL + "/b\n")}, &fstest.MapFile{Data: []byte("two\n")}
	}
}
