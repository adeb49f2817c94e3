//go:build browser

package browsertest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// patience is how long the browser may take for anything.
const patience = time.Minute

// program finds Chromium, and fails with how to get it.
func program(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("no browser: these tests need Chromium or Chrome on the PATH (Debian: apt-get install chromium), or its path in CHROMIUM")
	return ""
}

// browser is a running Chromium that is spoken to over a pair of pipes, by the DevTools protocol.
type browser struct {
	out io.WriteCloser

	lock    sync.Mutex
	last    int
	waiting map[int]chan message
	heard   map[string]func(method string, params json.RawMessage) // by session
	broken  error
}

// message is an answer or an event.
type message struct {
	ID        int             `json:"id"`
	SessionID string          `json:"sessionId"`
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// start starts a browser that knows no one and calls no one.
func start(t *testing.T) *browser {
	t.Helper()
	path := program(t)
	flags := []string{
		"--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
		"--user-data-dir=" + t.TempDir(), "about:blank",
	}
	if os.Geteuid() == 0 { // its sandbox refuses root
		flags = append([]string{"--no-sandbox"}, flags...)
	}
	theirIn, in := pipe(t)
	out, theirOut := pipe(t)
	cmd := exec.Command(path, flags...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // descriptors 3 and 4, where it expects them
	if err := cmd.Start(); err != nil {
		t.Fatalf("browser: %v", err)
	}
	closed(t, theirIn)
	closed(t, theirOut)
	b := &browser{out: in, waiting: map[int]chan message{}, heard: map[string]func(string, json.RawMessage){}}
	go b.listen(out)
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		if b.call(ctx, "", "Browser.close", nil, nil) != nil {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait() // it has been asked to end, or was killed
		closed(t, in)
		closed(t, out)
	})
	return b
}

func closed(t *testing.T, f *os.File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// listen hands out answers and events, each of which ends with a zero.
func (b *browser) listen(from io.Reader) {
	in := bufio.NewReader(from)
	for {
		line, err := in.ReadBytes(0)
		if err != nil {
			b.end(fmt.Errorf("browser: it went away: %w", err))
			return
		}
		var m message
		if err := json.Unmarshal(line[:len(line)-1], &m); err != nil {
			b.end(fmt.Errorf("browser: %w: %s", err, line))
			return
		}
		b.lock.Lock()
		answer, hears := b.waiting[m.ID], b.heard[m.SessionID]
		delete(b.waiting, m.ID)
		b.lock.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case m.Method != "" && hears != nil:
			hears(m.Method, m.Params)
		}
	}
}

func (b *browser) end(err error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	b.broken = err
	for id, answer := range b.waiting {
		close(answer)
		delete(b.waiting, id)
	}
}

// send asks for something; the answer will come.
func (b *browser) send(session, method string, params any) (<-chan message, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if b.broken != nil {
		return nil, b.broken
	}
	b.last++
	text, err := json.Marshal(struct {
		ID        int    `json:"id"`
		SessionID string `json:"sessionId,omitempty"`
		Method    string `json:"method"`
		Params    any    `json:"params,omitempty"`
	}{b.last, session, method, params})
	if err != nil {
		return nil, err
	}
	answer := make(chan message, 1)
	b.waiting[b.last] = answer
	_, err = b.out.Write(append(text, 0))
	return answer, err
}

// call asks for something and waits for the answer.
func (b *browser) call(ctx context.Context, session, method string, params, into any) error {
	answer, err := b.send(session, method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m, there := <-answer:
		switch {
		case !there:
			return fmt.Errorf("%s: %w", method, errors.New("the browser went away"))
		case m.Error != nil:
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		case into == nil:
			return nil
		}
		return json.Unmarshal(m.Result, into)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}
