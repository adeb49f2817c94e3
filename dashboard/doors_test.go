package dashboard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// desk answers by what it was asked.
type desk struct{}

func (desk) Choices() any { return map[string]string{"can": "be asked"} }

func (desk) Ask(_ context.Context, question []byte) (any, error) {
	if string(question) == "bad" {
		return nil, Refuse(http.StatusBadRequest, errors.New("limit: must be 0 or more"))
	}
	return map[string]string{"asked": string(question)}, nil
}

func (desk) Do(_ context.Context, token string, action []byte) (any, error) {
	if token != "good" {
		return nil, Refuse(http.StatusForbidden, errors.New("may not"))
	}
	return map[string]string{"did": string(action)}, nil
}

// TestDoorsOpenToThePageAlone asks as the page does, as other pages could, and without what is
// needed.
func TestDoorsOpenToThePageAlone(t *testing.T) {
	full := filled(t, 3)
	full.Doors = Doors{WhatIf: desk{}, Actions: desk{}}
	page := map[string]string{"Origin": "http://127.0.0.1", "Content-Type": "application/json", "Authorization": "Bearer good"}
	for _, c := range []struct {
		name, method, path, body string
		change                   map[string]string // of the headers; empty removes
		far                      bool
		code                     int
		want                     string
	}{
		{name: "choices", method: "GET", path: "what-if", change: map[string]string{"Origin": ""}, code: 200, want: "be asked"},
		{name: "question", method: "POST", path: "what-if", body: "{}", code: 200, want: `{"asked":"{}"}`},
		{name: "wrong question", method: "POST", path: "what-if", body: "bad", code: 400, want: "limit: must be"},
		{name: "question of another page", method: "POST", path: "what-if", change: map[string]string{"Origin": "http://evil.example"}, code: 403, want: "origin: must be that of the page"},
		{name: "action", method: "POST", path: "actions", body: "x", code: 200, want: `{"did":"x"}`},
		{name: "no origin", method: "POST", path: "actions", change: map[string]string{"Origin": ""}, code: 403, want: "origin"},
		{name: "null origin", method: "POST", path: "actions", change: map[string]string{"Origin": "null"}, code: 403, want: "origin"},
		{name: "another port", method: "POST", path: "actions", change: map[string]string{"Origin": "http://127.0.0.1:81"}, code: 403, want: "origin"},
		{name: "another site", method: "POST", path: "actions", change: map[string]string{"Sec-Fetch-Site": "cross-site"}, code: 403, want: "origin"},
		{name: "of the same origin", method: "POST", path: "actions", change: map[string]string{"Sec-Fetch-Site": "same-origin"}, code: 200},
		{name: "form", method: "POST", path: "actions", change: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, code: 415, want: "content-type"},
		{name: "text", method: "POST", path: "actions", change: map[string]string{"Content-Type": "text/plain"}, code: 415, want: "content-type"},
		{name: "no token", method: "POST", path: "actions", change: map[string]string{"Authorization": ""}, code: 401, want: "authorization"},
		{name: "empty token", method: "POST", path: "actions", change: map[string]string{"Authorization": "Bearer  "}, code: 401, want: "authorization"},
		{name: "password", method: "POST", path: "actions", change: map[string]string{"Authorization": "Basic Z29vZA=="}, code: 401, want: "authorization"},
		{name: "no rights", method: "POST", path: "actions", change: map[string]string{"Authorization": "Bearer other"}, code: 403, want: "may not"},
		{name: "read", method: "GET", path: "actions", code: 405, want: "method: must be POST"},
		{name: "too long", method: "POST", path: "actions", body: strings.Repeat("x", mostBody+1), code: 413, want: "body"},
		{name: "over a network", method: "POST", path: "actions", far: true, code: 405, want: "method"},
		{name: "a record", method: "POST", path: "record", code: 405, want: "method: must be GET or HEAD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := httptest.NewRequest(c.method, "http://127.0.0.1/api/v1/"+c.path, strings.NewReader(c.body))
			for key, value := range page {
				r.Header.Set(key, value)
			}
			for key, value := range c.change {
				if r.Header.Del(key); value != "" {
					r.Header.Set(key, value)
				}
			}
			w := httptest.NewRecorder()
			full.Handler(!c.far).ServeHTTP(w, r)
			if w.Code != c.code || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("%d %s, want %d with %q", w.Code, w.Body, c.code, c.want)
			}
			if w.Code >= 400 && strings.Contains(w.Body.String(), "good") {
				t.Errorf("the token is in the answer: %s", w.Body)
			}
		})
	}
}

func TestSummaryListsWhatIsOffered(t *testing.T) {
	for want, h := range map[string]*History{`"offers":[]`: filled(t, 1), `"offers":["actions","what-if"]`: filled(t, 1)} {
		if strings.Contains(want, "what-if") {
			h.Doors = Doors{WhatIf: desk{}, Actions: desk{}}
		}
		if _, body := ask(h.Handler(true), "/api/v1/summary"); !strings.Contains(body, want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
	if code, body := ask(filled(t, 1).Handler(true), "/api/v1/what-if"); code != http.StatusNotFound {
		t.Error(fmt.Sprint(code, body), "where it is not offered")
	}
}
