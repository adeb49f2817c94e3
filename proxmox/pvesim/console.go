package pvesim

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
)

// Console is a shell of root on one of the hosts, for commands that are printed for people. It
// knows pveum, pvesh, quotes and ||; where a real shell would take a letter for more than a letter,
// it fails.
type Console struct {
	c     *Cluster
	token string
	// Tokens are those that were made here, USER!NAME=VALUE by name: their values are shown once.
	Tokens map[string]string
}

// Console opens one.
func (c *Cluster) Console() *Console {
	return &Console{c: c, token: c.Token(access.RootUser, "console", false), Tokens: map[string]string{}}
}

// Run runs a line. What is behind || is run if what is before it fails.
func (k *Console) Run(line string) error {
	words, err := shellWords(line)
	if err != nil {
		return err
	}
	for {
		next := slices.Index(words, "||")
		if next < 0 {
			return k.command(words)
		}
		if k.command(words[:next]) == nil {
			return nil
		}
		words = words[next+1:]
	}
}

// shellWords splits a line as sh does; what redirects output is omitted.
func shellWords(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case quoted:
			word.WriteRune(r)
		case r == ' ':
			w := word.String()
			if begun && !strings.HasPrefix(w, ">") && !strings.HasPrefix(w, "2>") {
				words = append(words, w)
			}
			word.Reset()
			begun = false
		case strings.ContainsRune("`$\"\\;<()*?[]#~!{}\t\n", r):
			return nil, fmt.Errorf("console: %q in %s is more than a letter to a shell", r, line)
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quoted {
		return nil, fmt.Errorf("console: a quote is not closed in %s", line)
	}
	return words, nil
}

// consoleCommands are the commands with the calls that they make. Words in capitals are the
// command's own arguments, in the path or, after a +, as parameters; options are parameters.
var consoleCommands = []struct{ form, method, path string }{
	{"pvesh get PATH", "GET", "PATH"},
	{"pvesh create PATH", "POST", "PATH"},
	{"pvesh set PATH", "PUT", "PATH"},
	{"pvesh delete PATH", "DELETE", "PATH"},
	{"pveum pool add POOL", "POST", "/pools+poolid=POOL"},
	{"pveum user add USER", "POST", "/access/users+userid=USER"},
	{"pveum user token add USER TOKEN", "POST", "/access/users/USER/token/TOKEN"},
	{"pveum user token modify USER TOKEN", "PUT", "/access/users/USER/token/TOKEN"},
	{"pveum user token remove USER TOKEN", "DELETE", "/access/users/USER/token/TOKEN"},
	{"pveum role add ROLE", "POST", "/access/roles+roleid=ROLE"},
	{"pveum role modify ROLE", "PUT", "/access/roles/ROLE"},
	{"pveum acl modify PATH", "PUT", "/access/acl+path=PATH"},
}

// command runs one command.
func (k *Console) command(words []string) error {
	var named []string
	params := url.Values{}
	for i := 0; i < len(words); i++ {
		if name, is := strings.CutPrefix(words[i], "--"); is && i+1 < len(words) {
			params.Set(name, words[i+1])
			i++
			continue
		}
		named = append(named, words[i])
	}
	for _, cmd := range consoleCommands {
		arguments, fits := matchWords(strings.Fields(cmd.form), named)
		if !fits {
			continue
		}
		path, parameter, _ := strings.Cut(cmd.path, "+")
		if name, word, given := strings.Cut(parameter, "="); given {
			params.Set(name, arguments[word])
		}
		for word, value := range arguments {
			path = strings.ReplaceAll(path, word, value)
		}
		return k.call(cmd.method, path, params)
	}
	return fmt.Errorf("console: no such command here: %s", strings.Join(words, " "))
}

// matchWords holds words against a form, and returns what replaces the words in capitals.
func matchWords(form, words []string) (map[string]string, bool) {
	if len(form) != len(words) {
		return nil, false
	}
	arguments := map[string]string{}
	for i, f := range form {
		switch {
		case f == strings.ToUpper(f):
			arguments[f] = words[i]
		case f != words[i]:
			return nil, false
		}
	}
	return arguments, true
}

// call makes a call of the API.
func (k *Console) call(method, path string, params url.Values) error {
	target, body := "https://"+k.c.Nodes[0].Name+":8006/api2/json"+path, params.Encode()
	if method == http.MethodGet || method == http.MethodDelete {
		target, body = target+"?"+body, ""
	}
	req, err := http.NewRequest(method, target, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	req.Header.Set("Authorization", "PVEAPIToken="+k.token)
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := k.c.Transport().RoundTrip(req)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("console: %s %s: %s: %s", method, path, res.Status, answer)
	}
	var made struct {
		Data struct {
			Name  string `json:"full-tokenid"`
			Value string `json:"value"`
		}
	}
	if json.Unmarshal(answer, &made) == nil && made.Data.Value != "" {
		k.Tokens[made.Data.Name] = made.Data.Name + "=" + made.Data.Value
	}
	return nil
}
