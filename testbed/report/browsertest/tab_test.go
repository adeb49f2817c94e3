//go:build browser

package browsertest

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/plimsoll/plimsoll/testbed/must"
)

// look is what a page can be asked, in the page itself.
//
//go:embed look.js
var look string

// tab is a page that is open, with what it complained of.
type tab struct {
	*browser
	t       *testing.T
	session string

	lock   sync.Mutex
	origin string // of which it may load, besides files
	faults []string
	loaded chan struct{}
}

// tab opens an empty page that has no network.
func (b *browser) tab(t *testing.T) *tab {
	t.Helper()
	p := &tab{browser: b, t: t, loaded: make(chan struct{}, 1)}
	var target struct{ TargetID, SessionID string }
	p.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	p.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &target)
	p.session = target.SessionID
	b.lock.Lock()
	b.heard[p.session] = p.hear
	b.lock.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		p.ask(domain+".enable", nil, nil)
	}
	p.ask("Network.emulateNetworkConditions", map[string]any{"offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}, nil)
	p.ask("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": look}, nil)
	t.Cleanup(func() { p.ask("Page.close", nil, nil) })
	return p
}

// ask asks the browser, and ends the test where it refuses.
func (p *tab) ask(method string, params, into any) {
	p.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	must.Do(p.t, p.call(ctx, p.session, method, params, into))
}

func (p *tab) fault(format string, args ...any) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.faults = append(p.faults, fmt.Sprintf(format, args...))
}

// hear takes note of everything that a page must not do.
func (p *tab) hear(method string, params json.RawMessage) {
	var e struct {
		Type    string
		Args    []struct{ Value, Description any }
		Entry   struct{ Level, Source, Text string }
		Request struct{ URL string }

		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := json.Unmarshal(params, &e); err != nil && !strings.HasPrefix(method, "Network.") {
		p.fault("an event that cannot be read: %s: %v", method, err)
		return
	}
	switch method {
	case "Page.loadEventFired":
		select {
		case p.loaded <- struct{}{}:
		default:
		}
	case "Runtime.consoleAPICalled":
		if e.Type == "error" || e.Type == "warning" || e.Type == "assert" {
			p.fault("console: %s: %v", e.Type, e.Args)
		}
	case "Runtime.exceptionThrown":
		p.fault("exception: %s %s", e.ExceptionDetails.Text, e.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		if e.Entry.Level == "error" || e.Entry.Level == "warning" {
			p.fault("log: %s: %s", e.Entry.Source, e.Entry.Text)
		}
	case "Network.requestWillBeSent":
		p.lock.Lock()
		ours := p.origin != "" && strings.HasPrefix(e.Request.URL, p.origin)
		p.lock.Unlock()
		if u := e.Request.URL; !ours && !strings.HasPrefix(u, "file:") && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "about:") {
			p.fault("request: %s", u)
		}
	}
}

// take are the faults so far, which are forgotten.
func (p *tab) take() []string {
	p.lock.Lock()
	defer p.lock.Unlock()
	out := p.faults
	p.faults = nil
	return out
}

// open opens a file.
func (p *tab) open(file string) {
	p.t.Helper()
	p.visit("file://" + must.Get(filepath.Abs(file))(p.t))
}

// online lets the page load from one server, and from no other.
func (p *tab) online(origin string) {
	p.t.Helper()
	p.lock.Lock()
	p.origin = origin
	p.lock.Unlock()
	p.ask("Network.emulateNetworkConditions", map[string]any{"offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}, nil)
}

// visit opens an address.
func (p *tab) visit(url string) {
	p.t.Helper()
	select { // of the page before
	case <-p.loaded:
	default:
	}
	var answer struct{ ErrorText string }
	p.ask("Page.navigate", map[string]any{"url": url}, &answer)
	if answer.ErrorText != "" {
		p.t.Fatalf("%s: %s", url, answer.ErrorText)
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	select {
	case <-p.loaded:
	case <-ctx.Done():
		p.t.Fatalf("%s: not loaded: %v", url, ctx.Err())
	}
}

// see makes the page so wide, in that medium and scheme of colours.
func (p *tab) see(width int, medium, scheme string) {
	p.t.Helper()
	p.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.ask("Emulation.setEmulatedMedia", map[string]any{
		"media": medium, "features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}},
	}, nil)
}

// eval evaluates an expression in the page.
func (p *tab) eval(expression string, into any) {
	p.t.Helper()
	var answer struct {
		Result struct{ Value json.RawMessage }

		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.ask("Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &answer)
	if e := answer.ExceptionDetails; e != nil {
		p.t.Fatalf("%s: %s %s", expression, e.Text, e.Exception.Description)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(answer.Result.Value, into); err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
}

// press presses a key.
func (p *tab) press(key string, code int, text string) {
	p.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		event := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}
		if kind == "keyDown" && text != "" {
			event["text"] = text
		}
		p.ask("Input.dispatchKeyEvent", event, nil)
	}
}

// shoot writes a picture of the page for people to look at: of the whole, or of what is in view.
func (p *tab) shoot(file string, whole bool) {
	p.t.Helper()
	must.Do(p.t, os.WriteFile(file, p.capture(whole), 0o644))
}

// picture is what is in view.
func (p *tab) picture() image.Image {
	p.t.Helper()
	return must.Get(png.Decode(bytes.NewReader(p.capture(false))))(p.t)
}

// capture is a PNG.
func (p *tab) capture(whole bool) []byte {
	p.t.Helper()
	var picture struct{ Data string }
	p.ask("Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": whole}, &picture)
	return must.Get(base64.StdEncoding.DecodeString(picture.Data))(p.t)
}
