package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// handler answers what the API server asks a kubelet: logs.
func (k *kubelet) handler() http.Handler {
	web := http.NewServeMux()
	web.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", k.logs)
	web.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })
	return web
}

// wanted is which part of a log is asked for.
type wanted struct {
	follow, previous, timestamps bool
	tail, limit                  int64 // -1 is all
	since                        time.Time
}

func readWanted(q url.Values) (*wanted, error) {
	w := &wanted{tail: -1, limit: -1}
	var faults []error
	read := func(key string, into func(string) error) {
		if text := q.Get(key); text != "" {
			if err := into(text); err != nil {
				faults = append(faults, fmt.Errorf("%s: %w", key, err))
			}
		}
	}
	flag := func(f *bool) func(string) error {
		return func(text string) (err error) { *f, err = strconv.ParseBool(text); return err }
	}
	number := func(n *int64) func(string) error {
		return func(text string) (err error) { *n, err = strconv.ParseInt(text, 10, 64); return err }
	}
	read("follow", flag(&w.follow))
	read("previous", flag(&w.previous))
	read("timestamps", flag(&w.timestamps))
	read("tailLines", number(&w.tail))
	read("limitBytes", number(&w.limit))
	read("sinceTime", func(text string) (err error) { w.since, err = time.Parse(time.RFC3339Nano, text); return err })
	var seconds int64
	read("sinceSeconds", number(&seconds))
	if seconds > 0 {
		w.since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	return w, errors.Join(faults...)
}

// logs answers with a container's log.
func (k *kubelet) logs(w http.ResponseWriter, r *http.Request) {
	ask, err := readWanted(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := k.container(r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
	if c == nil {
		http.Error(w, "there is no such container here, or it waits", http.StatusNotFound)
		return
	}
	number, before := c.runs()
	if ask.previous {
		number = before
	}
	log, err := os.Open(c.log(number))
	if number < 0 || errors.Is(err, fs.ErrNotExist) {
		http.Error(w, fmt.Sprintf("container %s has not run, or not before", c.spec.Name), http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = log.Close() }() // it was read
	w.Header().Set("Content-Type", "text/plain")
	if err := ask.answer(r.Context(), w, log, func() bool { return c.runsAs(number) }); err != nil {
		k.log.Print(err) // the answer has begun, so no error can be sent
	}
}

// container is one of a pod that is run here, by its name, or nil.
func (k *kubelet) container(namespace, name, container string) *container {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		for _, c := range p.all() {
			if p.namespace == namespace && p.name == name && c.spec.Name == container && k.look(p) != nil {
				return c
			}
		}
	}
	return nil
}

// runsAs is whether the run of a number is under way.
func (c *container) runsAs(number int32) bool {
	now, _ := c.runs()
	c.mu.Lock()
	defer c.mu.Unlock()
	return now == number && c.state.Terminated == nil && c.state.Waiting == nil
}

// answer writes the lines that are wanted, and those that come while the container runs if they
// are.
func (a *wanted) answer(ctx context.Context, w http.ResponseWriter, log io.Reader, runs func() bool) error {
	var out io.Writer = w
	if a.limit >= 0 {
		out = &limited{w, a.limit}
	}
	var lines [][]byte
	var half []byte
	emit := func() error {
		for _, l := range lines {
			if _, err := out.Write(a.shown(l)); err != nil {
				return err
			}
		}
		lines = nil
		return http.NewResponseController(w).Flush()
	}
	read := func() {
		all, _ := io.ReadAll(bufio.NewReader(log)) // a file
		for _, l := range bytes.SplitAfter(slices.Concat(half, all), []byte("\n")) {
			if half = l; bytes.HasSuffix(l, []byte("\n")) {
				half = nil
				if a.isSince(l) {
					lines = append(lines, l)
				}
			}
		}
	}
	read()
	if a.tail >= 0 && int64(len(lines)) > a.tail {
		lines = lines[int64(len(lines))-a.tail:]
	}
	for {
		if err := emit(); err != nil || !a.follow {
			return ignored(ctx, err)
		}
		went := !runs() // before it is read to its end
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
		read()
		if went {
			return ignored(ctx, emit())
		}
	}
}

// ignored leaves an error that is not the reader's going away.
func ignored(ctx context.Context, err error) error {
	if ctx.Err() == nil && !errors.Is(err, errEnough) {
		return err
	}
	return nil
}

func (a *wanted) isSince(line []byte) bool {
	if a.since.IsZero() {
		return true
	}
	at, _, _ := strings.Cut(string(line), " ")
	t, err := time.Parse(logTime, at)
	return err != nil || !t.Before(a.since)
}

func (a *wanted) shown(line []byte) []byte {
	if a.timestamps {
		return line
	}
	_, text, _ := bytes.Cut(line, []byte(" "))
	return text
}

var errEnough = errors.New("enough was written")

// limited writes no more than is left.
type limited struct {
	to   io.Writer
	left int64
}

// Write writes what may still be written.
func (l *limited) Write(p []byte) (int, error) {
	n, err := l.to.Write(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	if err == nil && n < len(p) {
		err = errEnough
	}
	return n, err
}
