package main

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/dashboard"
	"github.com/plimsoll/plimsoll/testbed/must"
)

// TestThePageOfARecordingAnswersWhatIf shows a recording, and asks as the page does.
func TestThePageOfARecordingAnswersWhatIf(t *testing.T) {
	folder := t.TempDir()
	must.Do(t, recordShop(folder, 30*time.Minute))
	h, notes := dashboard.New(dashboard.Large), &strings.Builder{}
	if err := showRecording(&cli.Env{Stderr: notes}, h, folder); err != nil || notes.Len() > 0 {
		t.Fatal(err, notes)
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		wants              []string
	}{
		{"GET", "summary", "", 200, []string{`"workloads":["shop/web"]`, `"offers":["what-if"]`}},
		{"GET", "money", "", 200, []string{`"byNamespace":[{"name":"shop"`}},
		{"GET", "what-if", "", 200, []string{`"workloads":["shop/web"]`, `"pools":[{"name":"worker","min":1,"max":9}]`, `"policies":[`}},
		{"POST", "what-if", `{"workload":"shop/web","objective":{"targetMs":900},"thinkMs":1000}`, 200, []string{`"rows":[{"name":"cost, units"`, `"notes":[`}},
		{"POST", "what-if", `{"pools":{"spot":{}}}`, 400, []string{`pools: must be pools of the recording, of worker, was \"spot\"`}},
		{"POST", "what-if", `{"limits":3}`, 400, []string{`unknown field \"limits\"`}},
		{"POST", "what-if", `{"thinkMs":-1}`, 400, []string{"thinkMs: must be from 0 to an hour, was -1"}},
	} {
		r := httptest.NewRequest(c.method, "http://127.0.0.1/api/v1/"+c.path, strings.NewReader(c.body))
		r.Header.Set("Origin", "http://127.0.0.1")
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.Handler(true).ServeHTTP(w, r)
		for _, want := range c.wants {
			if w.Code != c.code || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s %s %s: %d %.300s, want %d with %s", c.method, c.path, c.body, w.Code, w.Body, c.code, want)
			}
		}
	}
	door := h.Doors.WhatIf.(*whatIfDoor)
	door.playing.Lock()
	defer door.playing.Unlock()
	if _, err := door.Ask(t.Context(), []byte(`{}`)); err == nil || !strings.Contains(err.Error(), "another question") {
		t.Errorf("two at a time: %v", err)
	}
}
