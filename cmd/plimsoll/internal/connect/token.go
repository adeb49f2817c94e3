package connect

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/plimsoll/plimsoll/cmd/plimsoll/internal/cli"
	"github.com/plimsoll/plimsoll/proxmox/pveapi"
)

// tokenFile is a file with an API token in it, which is read again when it has changed.
type tokenFile struct {
	env  *cli.Env
	name string

	mu    sync.Mutex
	token string
	mod   time.Time
	size  int64
	at    time.Time // it was read
}

// granularity is more than the time within which a file may change twice and look unchanged.
const granularity = 2 * time.Second

func newTokenFile(env *cli.Env, name string) *tokenFile { return &tokenFile{env: env, name: name} }

// read returns the token. Errors name file and rule, and nothing of what is in the file.
func (t *tokenFile) read() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	info, err := t.env.Stat(t.name)
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read: %w", err)
	}
	if t.token != "" && info.ModTime().Equal(t.mod) && info.Size() == t.size && t.at.Sub(t.mod) > granularity {
		return t.token, nil
	}
	data, err := t.env.ReadFile(t.name)
	if err != nil {
		return "", fmt.Errorf("must be a file that can be read: %w", err)
	}
	token, err := parseTokenFile(data)
	if err != nil {
		return "", fmt.Errorf("%s %w", t.name, err)
	}
	t.token, t.mod, t.size, t.at = token, info.ModTime(), info.Size(), t.env.Now()
	return token, nil
}

// Trimmed is the text of a file without blanks around it, and without the mark that some editors
// begin a file with.
func Trimmed(data []byte) string {
	return string(bytes.TrimSpace(bytes.TrimPrefix(data, []byte("\ufeff"))))
}

// parseTokenFile reads a file of one line.
func parseTokenFile(data []byte) (string, error) {
	text := Trimmed(data)
	lines := len(strings.Split(text, "\n"))
	switch {
	case text == "":
		return "", errors.New("must hold a token, was empty")
	case lines > 1:
		return "", fmt.Errorf("must hold a token on one line, and has %d lines", lines)
	}
	if _, err := pveapi.ParseToken(text); err != nil {
		return "", err
	}
	return text, nil
}
