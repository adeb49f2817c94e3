package testbedverb

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/testbed/must"
)

func run(ctx context.Context, env *cli.Env) int { return cli.Run(ctx, env, New) }

// refused runs the program where it ends at once, and returns what it says and exits with.
func refused(t *testing.T, args ...string) (stderr string, code int) {
	t.Helper()
	var errs bytes.Buffer
	code = run(t.Context(), &cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &errs, Now: time.Now,
		Getenv:   func(string) string { return "" },
		ReadFile: func(string) ([]byte, error) { return nil, fs.ErrNotExist },
	})
	return errs.String(), code
}

// load runs a loader in this process until the test stops it.
func load(t *testing.T, args ...string) (said loading, stop func() (stderr string, code int)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, &cli.Env{
			Args:  append([]string{"testbed", "loader", "--listen", "127.0.0.1:0", "-o", "json"}, args...),
			Stdin: strings.NewReader(""), Stdout: in, Stderr: &errs, Getenv: func(string) string { return "" }, Now: time.Now,
		})
		_ = in.CloseWithError(errors.New("it ended"))
	}()
	t.Cleanup(cancel)
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		cancel()
		<-code
		t.Fatalf("it says %v: %s", err, &errs)
	}
	return said, func() (string, int) {
		cancel()
		n := <-code
		return errs.String(), n
	}
}

func TestLoadersMakeAChain(t *testing.T) {
	last, stopLast := load(t, "--digits", "30")
	first, stopFirst := load(t, "--calibrate", "5ms", "--memory", "100kB", "--call", last.URL, "--call", last.URL, "--parallel")
	if first.Digits < 2 || first.AskedMs != 5 || first.DemandMs <= 0 || first.Memory != 100_000 || !first.Parallel || len(first.Calls) != 2 {
		t.Errorf("the first says %+v", first)
	}
	for _, c := range []struct{ url, want string }{
		{first.URL, "3.14"}, {first.URL + "readyz", "ok"}, {first.URL + "healthz", "ok"},
		{last.URL + "metrics", "http_server_request_duration_seconds_count{http_response_status_code=\"200\"} 2\n"},
	} {
		response := must.Get(http.Get(c.url))(t)
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(string(text), c.want) {
			t.Errorf("%s: %s, %v, want %s in %s", c.url, response.Status, err, c.want, text)
		}
	}
	for _, stop := range []func() (string, int){stopFirst, stopLast} {
		if stderr, code := stop(); code != cli.ExitDone {
			t.Errorf("it exits with %d: %s", code, stderr)
		}
	}
}

func TestLoaderTellsOfAPortThatIsTaken(t *testing.T) {
	said, _ := load(t, "--digits", "5")
	taken := strings.Trim(strings.TrimPrefix(said.URL, "http://"), "/")
	stderr, code := refused(t, "testbed", "loader", "--listen", taken)
	if code != cli.ExitUnreachable || !strings.Contains(stderr, "address already in use (port 0 takes a free one)") {
		t.Errorf("it exits with %d: %s", code, stderr)
	}
}
