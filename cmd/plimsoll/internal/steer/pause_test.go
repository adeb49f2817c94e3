package steer

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// Pools are paused first. What is refused, and what was deleted meanwhile, keeps nothing else from
// being paused, however many there are.
func TestPauseAllPausesWhatItCan(t *testing.T) {
	const workloads = 400
	var patched []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		kind := map[bool]string{true: "VMPool", false: "WorkloadAutoscaler"}[strings.Contains(r.URL.Path, "vmpools")]
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		switch {
		case r.Method == http.MethodGet:
			items := []string{`{"metadata": {"name": "workers"}}`}
			if kind == "WorkloadAutoscaler" {
				items = nil
				for i := range workloads {
					items = append(items, fmt.Sprintf(`{"metadata": {"namespace": "shop", "name": "web-%d"}}`, i))
				}
			}
			fmt.Fprintf(w, `{"kind": "%[1]sList", "apiVersion": "plimsoll.dev/v1alpha1", "items": [%[2]s]}`, kind, strings.Join(items, ","))
		case name == "web-1":
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": 422, "message": "web-1 is invalid"}`)
		case name == "web-2":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": "web-2 not found"}`)
		default:
			patched = append(patched, name)
			fmt.Fprintf(w, `{"kind": %q, "apiVersion": "plimsoll.dev/v1alpha1", "metadata": {"name": %q, "annotations": {"plimsoll.dev/paused": "true"}}}`, kind, name)
		}
	}))
	defer s.Close()
	out, err := pauseAll(t, s.URL)
	if err == nil || err.Error() != "web-1 is invalid" {
		t.Error(err)
	}
	if len(patched) != workloads-2+1 || patched[0] != "workers" || slices.Contains(patched, "web-1") {
		t.Errorf("paused %d, the first %s", len(patched), patched[0])
	}
	if got := strings.Count(out, " yes "); got != len(patched) {
		t.Errorf("%d are said to be paused:\n%s", got, out)
	}
}

// An API server that goes away is asked no more. What was done is shown, and how much was not.
func TestPauseAllStopsWhereTheServerGoesAway(t *testing.T) {
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch kind := strings.TrimPrefix(r.URL.Path, "/apis/plimsoll.dev/v1alpha1/"); {
		case r.Method == http.MethodGet && kind == "vmpools":
			fmt.Fprint(w, `{"kind": "VMPoolList", "apiVersion": "plimsoll.dev/v1alpha1", "items": [{"metadata": {"name": "workers"}}]}`)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `{"kind": "WorkloadAutoscalerList", "apiVersion": "plimsoll.dev/v1alpha1", "items": [
				{"metadata": {"namespace": "shop", "name": "a"}}, {"metadata": {"namespace": "shop", "name": "b"}}, {"metadata": {"namespace": "shop", "name": "c"}}]}`)
		case kind == "vmpools/workers":
			fmt.Fprint(w, `{"kind": "VMPool", "apiVersion": "plimsoll.dev/v1alpha1", "metadata": {"name": "workers", "annotations": {"plimsoll.dev/paused": "true"}}}`)
		default:
			asked.Add(1)
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
	}))
	defer s.Close()
	out, err := pauseAll(t, s.URL)
	if err == nil || strings.Count(err.Error(), "\n") > 0 || !strings.HasPrefix(err.Error(), "WorkloadAutoscaler a and 2 others were not written: ") {
		t.Errorf("%v", err)
	}
	if asked.Load() != 1 || strings.Count(out, " yes ") != 1 {
		t.Errorf("asked %d times after it went away; said:\n%s", asked.Load(), out)
	}
}

// pauseAll pauses everything at an API server, and returns what was printed.
func pauseAll(t *testing.T, server string) (printed string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: %q}}]}`, server)
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	var out bytes.Buffer
	cmd := NewPause(&cli.Env{Stdout: &out, Stderr: &out, Now: time.Now, Getenv: func(string) string { return "" }, ReadFile: os.ReadFile})
	cmd.SetArgs([]string{"--all", "--kubeconfig", file})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.Execute()
	return out.String(), err
}
