package template

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"
)

// cache is a proxy that keeps packages. What was begun is gone on with, so that a build that was
// interrupted fetches nothing twice. Everything else passes through: lists of packages change.
// Whether a package is the right one is judged by apt, by the signed list.
type cache struct {
	folder string
	client *http.Client
	lock   sync.Mutex
	files  map[string]*sync.Mutex // a package is fetched once, however many ask

	fetched, kept int64 // bytes that came from elsewhere, and that were there
}

// serve answers on this machine alone until the context ends, and returns the proxy's address.
func (c *cache) serve(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = s.Close() })
	go func() { _ = s.Serve(l) }()
	return "http://" + l.Addr().String(), nil
}

// unchanging are the files whose names say what is in them.
var unchanging = regexp.MustCompile(`(/pool/.*\.deb|/by-hash/SHA256/[0-9a-f]{64})$`)

func (c *cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || !r.URL.IsAbs() || r.URL.Scheme != "http" {
		http.Error(w, "only GET http://... is served", http.StatusMethodNotAllowed)
		return
	}
	clean := path.Clean("/" + r.URL.Path)
	if r.URL.RawQuery != "" || clean != r.URL.Path || !unchanging.MatchString(clean) || strings.ContainsAny(r.URL.Host, `/\`) {
		c.pass(w, r)
		return
	}
	name := filepath.Join(c.folder, strings.ReplaceAll(r.URL.Host, ":", "_"), filepath.FromSlash(clean))
	one := c.of(name)
	one.Lock()
	defer one.Unlock()
	if status, err := c.fetch(r, name); err != nil {
		http.Error(w, err.Error(), status)
		return
	}
	http.ServeFile(w, r, name)
}

// of is the lock of a file.
func (c *cache) of(name string) *sync.Mutex {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.files == nil {
		c.files = map[string]*sync.Mutex{}
	}
	if c.files[name] == nil {
		c.files[name] = &sync.Mutex{}
	}
	return c.files[name]
}

// pass asks in the caller's place.
func (c *cache) pass(w http.ResponseWriter, r *http.Request) {
	ask := r.Clone(r.Context())
	ask.RequestURI = ""
	ask.Header.Del("Proxy-Connection")
	res, err := c.client.Do(ask)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = res.Body.Close() }()
	for key, values := range res.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(res.StatusCode)
	n, _ := io.Copy(w, res.Body) // the caller sees that it is short
	c.count(n, 0)
}

func (c *cache) count(fetched, kept int64) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.fetched += fetched
	c.kept += kept
}

// fetch makes sure that a file is there, whole.
func (c *cache) fetch(r *http.Request, name string) (int, error) {
	if at, err := os.Stat(name); err == nil {
		c.count(0, at.Size())
		return 0, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		return http.StatusInternalServerError, err
	}
	part, err := os.OpenFile(name+".part", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	defer func() { _ = part.Close() }()
	began, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	status, err := c.goOn(r, part, began)
	if err != nil {
		return status, err
	}
	c.count(0, began)
	return 0, os.Rename(part.Name(), name)
}

// goOn fetches what is missing of a file, or all of it where the server cannot go on.
func (c *cache) goOn(r *http.Request, part *os.File, began int64) (int, error) {
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, r.URL.String(), nil)
	if err != nil {
		return http.StatusBadRequest, err
	}
	if began > 0 {
		ask.Header.Set("Range", fmt.Sprintf("bytes=%d-", began))
	}
	res, err := c.client.Do(ask)
	if err != nil {
		return http.StatusBadGateway, err
	}
	defer func() { _ = res.Body.Close() }()
	switch {
	case res.StatusCode == http.StatusPartialContent && began > 0 &&
		strings.HasPrefix(res.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", began)):
	case res.StatusCode == http.StatusOK || res.StatusCode == http.StatusRequestedRangeNotSatisfiable && began > 0:
		// From the start: the server knows no ranges, or what was begun is as long as the file.
		if err := errors.Join(part.Truncate(0), rewind(part)); err != nil {
			return http.StatusInternalServerError, err
		}
		if res.StatusCode != http.StatusOK {
			return c.goOn(r, part, 0)
		}
	default:
		return res.StatusCode, fmt.Errorf("%s: %s", r.URL, res.Status)
	}
	n, err := io.Copy(part, res.Body)
	c.count(n, 0)
	if err != nil {
		return http.StatusBadGateway, err
	}
	return 0, nil
}

func rewind(f *os.File) error { _, err := f.Seek(0, io.SeekStart); return err }
