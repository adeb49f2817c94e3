//go:build guest

package guests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim"
)

// Shell runs programs in the guests of the host pve1, and makes the calls that the product does not
// make.
type Shell struct {
	http  *http.Client
	token string
}

// NewShell opens one with the rights of root.
func NewShell(c *pvesim.Cluster) *Shell {
	return &Shell{&http.Client{Transport: c.Transport()}, c.Token("root@pam", "shell", false)}
}

// Call makes a call on a machine, and puts the answer's data into data, unless that is nil.
func (s *Shell) Call(ctx context.Context, method string, id int, path string, form url.Values, data any) error {
	r, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("https://pve1:8006/api2/json/nodes/pve1/qemu/%d/%s", id, path), strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "PVEAPIToken="+s.token)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer, err := s.http.Do(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	body := struct{ Data any }{data}
	if err := json.Unmarshal(text, &body); err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s %s", method, path, answer.Status, text)
	}
	return nil
}

// Run runs a program in a guest, for a minute at most, and returns what it printed and how it
// ended.
func (s *Shell) Run(ctx context.Context, id int, command ...string) (out string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var begun struct{ PID int }
	if err := s.Call(ctx, http.MethodPost, id, "agent/exec", url.Values{"command": command}, &begun); err != nil {
		return "", 0, err
	}
	for {
		var ended struct {
			Exited   int
			ExitCode int
			Out      string `json:"out-data"`
			Wrong    string `json:"err-data"`
		}
		if err := s.Call(ctx, http.MethodGet, id, fmt.Sprintf("agent/exec-status?pid=%d", begun.PID), nil, &ended); err != nil {
			return "", 0, err
		}
		if ended.Exited != 0 {
			return ended.Out + ended.Wrong, ended.ExitCode, nil
		}
		select {
		case <-ctx.Done():
			return "", 0, fmt.Errorf("%v: %w", command, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Finds returns in which files of a guest each user can read a text.
func (s *Shell) Finds(ctx context.Context, id int, text string, users ...string) (map[string]string, error) {
	// The agent logs what it runs, so that is not the text as it is.
	pattern := text[:5] + "[" + text[5:6] + "]" + text[6:]
	found := map[string]string{}
	for _, user := range users {
		line := "grep -rsle " + pattern + " /etc /var /run /home /root /opt /tmp /usr/local /dev/sr0; true"
		out, _, err := s.Run(ctx, id, "/usr/sbin/runuser", "-u", user, "--", "/bin/sh", "-c", line)
		if err != nil {
			return nil, err
		}
		found[user] = out
	}
	return found, nil
}
