package connect

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
)

// clocked is the environment of a token file, and a clock.
type clocked struct {
	files fstest.MapFS
	now   time.Time
	reads int
}

func (c *clocked) env() *cli.Env {
	return &cli.Env{
		ReadFile: func(name string) ([]byte, error) { c.reads++; return c.files.ReadFile(name) },
		Stat:     c.files.Stat, Now: func() time.Time { return c.now },
	}
}

// A file that begins with a mark holds what it looks like.
func TestTokensAreReadBehindTheMarkOfTheirFile(t *testing.T) {
	const token = "plimsoll@pve!plimsoll=00000000-0000-0000-0000-000000000000"
	if got, err := parseTokenFile([]byte("\ufeff" + token + "\r\n")); err != nil || got != token {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := parseTokenFile([]byte("\ufeff\n")); err == nil || err.Error() != "must hold a token, was empty" {
		t.Errorf("nothing behind it: %v", err)
	}
}

func TestChangedTokensArePickedUp(t *testing.T) {
	start := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	c := &clocked{files: fstest.MapFS{}, now: start.Add(time.Hour)}
	write := func(token string, at time.Time) { c.files["token"] = &fstest.MapFile{Data: []byte(token), ModTime: at} }
	file := newTokenFile(c.env(), "token")
	read := func(want string, reads int) {
		t.Helper()
		if got, err := file.read(); got != want || err != nil || c.reads != reads {
			t.Errorf("read %q after %d reads: %v, want %q after %d", got, c.reads, err, want, reads)
		}
	}
	write("plimsoll@pve!a1=one\n", start)
	read("plimsoll@pve!a1=one", 1)
	read("plimsoll@pve!a1=one", 1)
	write("plimsoll@pve!a2=two\n", start.Add(time.Minute))
	read("plimsoll@pve!a2=two", 2)
	read("plimsoll@pve!a2=two", 2)

	// Of a file that has just changed it cannot be seen whether it changes again.
	c.now = start.Add(2 * time.Hour)
	write("plimsoll@pve!a3=abc\n", c.now)
	read("plimsoll@pve!a3=abc", 3)
	write("plimsoll@pve!a3=xyz\n", c.now)
	read("plimsoll@pve!a3=xyz", 4)
	c.now = c.now.Add(time.Minute)
	read("plimsoll@pve!a3=xyz", 5)
	read("plimsoll@pve!a3=xyz", 5)

	// A broken token is an error until the file changes.
	write("plimsoll@pve!a4\n", c.now.Add(-time.Second))
	if _, err := file.read(); err == nil || !strings.HasPrefix(err.Error(), "token must be user@realm!id=secret") {
		t.Errorf("a broken token is read: %v", err)
	}
	delete(c.files, "token")
	if _, err := file.read(); err == nil || !strings.HasPrefix(err.Error(), "must be a file that can be read") {
		t.Errorf("a token that is gone is read: %v", err)
	}
	write("plimsoll@pve!a5=five", start)
	read("plimsoll@pve!a5=five", 7)
}
