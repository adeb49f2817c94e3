package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Doors are what the page offers besides its records. What is nil is not offered.
type Doors struct {
	WhatIf  WhatIf
	Actions Actions
}

// WhatIf answers what a time would have come to by other settings.
type WhatIf interface {
	// Choices is what may be asked, as JSON has it.
	Choices() any
	// Ask answers a question, which is JSON.
	Ask(ctx context.Context, question []byte) (any, error)
}

// Actions does what users may do themselves. It is handed their token, and has no right of its own.
type Actions interface {
	Do(ctx context.Context, token string, action []byte) (any, error)
}

// Refused is an error with the code that HTTP has for it.
type Refused struct {
	Code int
	error
}

// Refuse says why a question or an action is not taken, by an HTTP code.
func Refuse(code int, err error) error { return Refused{code, err} }

// Unwrap is the error without the code.
func (r Refused) Unwrap() error { return r.error }

// mostBody is how long a question or an action may be.
const mostBody = 64 << 10

// offers are the doors that are open, by their path. Actions are for pages on this machine only: a
// token must not cross a network in the clear.
func (h *History) offers(local bool) map[string]http.HandlerFunc {
	open := map[string]http.HandlerFunc{}
	if h.Doors.WhatIf != nil {
		open["/api/v1/what-if"] = h.whatIf
	}
	if h.Doors.Actions != nil && local {
		open["/api/v1/actions"] = h.act
	}
	return open
}

func (h *History) whatIf(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		answer(w, h.Doors.WhatIf.Choices(), nil)
		return
	}
	body, err := read(w, r)
	if err != nil {
		answer(w, nil, err)
		return
	}
	got, err := h.Doors.WhatIf.Ask(r.Context(), body)
	answer(w, got, err)
}

func (h *History) act(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		answer(w, nil, Refuse(http.StatusMethodNotAllowed, fmt.Errorf("method: must be POST, was %q", r.Method)))
		return
	}
	body, err := read(w, r)
	if err != nil {
		answer(w, nil, err)
		return
	}
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !given || strings.TrimSpace(token) == "" {
		answer(w, nil, Refuse(http.StatusUnauthorized, errors.New("authorization: must be Bearer and a token of the cluster")))
		return
	}
	got, err := h.Doors.Actions.Do(r.Context(), strings.TrimSpace(token), body)
	answer(w, got, err)
}

// read takes the body of a request that the page itself made: of this origin, and of a type that no
// form of another page can send without being asked first.
func read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	origin, err := url.Parse(r.Header.Get("Origin"))
	if site := r.Header.Get("Sec-Fetch-Site"); err != nil || origin.Host == "" || origin.Host != r.Host || site != "" && site != "same-origin" {
		return nil, Refuse(http.StatusForbidden, fmt.Errorf("origin: must be that of the page, %s", r.Host))
	}
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		return nil, Refuse(http.StatusUnsupportedMediaType, fmt.Errorf("content-type: must be application/json, was %q", kind))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		return nil, Refuse(http.StatusRequestEntityTooLarge, fmt.Errorf("body: must be at most %d bytes", mostBody))
	}
	return body, nil
}

func answer(w http.ResponseWriter, got any, err error) {
	if err != nil {
		code := http.StatusInternalServerError
		if refused := (Refused{}); errors.As(err, &refused) {
			code = refused.Code
		}
		refuse(w, code, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(got)
}
