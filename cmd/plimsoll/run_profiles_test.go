package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// A join token that is rotated is used without a restart. One that cannot be used leaves the last,
// and is said once.
func TestJoinTokensAreReadAgain(t *testing.T) {
	var out bytes.Buffer
	files := fstest.MapFS{"join": file("first\n")}
	s := &running{&siteFile{env: &cli.Env{ReadFile: files.ReadFile, Stderr: &out}}}
	s.Pools = []settings.Pool{{Name: "web"}}
	s.Pools[0].Join.TokenFile = "join"
	var got []string
	var refuse error
	configure := func(pools []settings.Pool, _ *pricing.Book) error {
		got = append(got, string(pools[0].Join.Token))
		return refuse
	}
	said := s.rereadOnce("", configure)
	files["join"] = file("second\n")
	said = s.rereadOnce(said, configure)
	if want := "first second"; strings.Join(got, " ") != want || said != "" || out.Len() > 0 {
		t.Fatalf("got %v, want %s: %s", got, want, &out)
	}
	delete(files, "join")
	for range 2 {
		said = s.rereadOnce(said, configure)
	}
	files["join"], refuse = file("third\n"), errors.New("the token will not do")
	_ = s.rereadOnce(said, configure)
	if len(got) != 3 || strings.Count(out.String(), "used as they were") != 2 || !strings.Contains(out.String(), "tokenFile") || strings.Contains(out.String(), "third") {
		t.Errorf("got %v: %s", got, &out)
	}
}
