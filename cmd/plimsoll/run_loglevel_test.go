package main

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// What is below the level that the file says is not logged.
func TestLogLevelsAreKept(t *testing.T) {
	for level, want := range map[string]string{"debug": "diwe", "info": "iwe", "": "iwe", "warn": "we", "error": "e"} {
		if !slices.Contains(logLevels, level) {
			t.Errorf("%q is refused", level)
		}
		var out bytes.Buffer
		s := &running{&siteFile{env: &cli.Env{Stderr: &out}}}
		s.LogLevel = level
		log := s.logger()
		for said, at := range map[string]slog.Level{"d": slog.LevelDebug, "i": slog.LevelInfo, "w": slog.LevelWarn, "e": slog.LevelError} {
			out.Reset()
			log.Log(t.Context(), at, said)
			if logged := strings.Contains(out.String(), "msg="+said); logged != strings.Contains(want, said) {
				t.Errorf("%q: %s is logged: %v", level, said, logged)
			}
		}
	}
	if slices.Contains(logLevels, "loud") {
		t.Error("any level is taken")
	}
}
