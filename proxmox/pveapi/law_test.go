package pveapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "github.com/plimsoll/plimsoll/testbed/seeded"
)

// anyJSON draws what a server, a proxy or a broken line may send in place of an answer.
func anyJSON(depth int) *rapid.Generator[string] {
	leaves := []*rapid.Generator[string]{
		rapid.SampledFrom([]string{
			"null", "true", "0", "1", "-1", "1e400", "12345678901234567890123", `""`, `"running"`, `"stopped"`, `"OK"`, `"310"`, `"x"`,
			`"` + upidClone + `"`, `"UPID:pve1:0000018A:0002E506:6B00A8B8:qmclone:9000"`, `"\ud800"`, `"local:iso/a.iso,size=1G,=,a=b=c"`,
		}),
		rapid.Map(rapid.String(), func(s string) string { b, _ := json.Marshal(s); return string(b) }),
	}
	if depth == 0 {
		return rapid.OneOf(leaves...)
	}
	inner := anyJSON(depth - 1)
	keys := rapid.SampledFrom([]string{
		"data", "message", "errors", "type", "id", "vmid", "upid", "status", "exitstatus", "endtime", "digest", "result", "n", "t", "node",
		"quorate", "online", "members", "poolid", "scsi0", "memory", "smbios1", "volid", "ha", "template", "total", "ip-addresses", "name", "VM.Audit",
	})
	return rapid.OneOf(append(leaves,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(parts []string) string { return "[" + strings.Join(parts, ",") + "]" }),
		rapid.Custom(func(t *rapid.T) string {
			var parts []string
			for range rapid.IntRange(0, 5).Draw(t, "fields") {
				parts = append(parts, fmt.Sprintf("%q:%s", keys.Draw(t, "key"), inner.Draw(t, "value")))
			}
			return "{" + strings.Join(parts, ",") + "}"
		}),
	)...)
}

// anyBody is an envelope with anything in it, or none.
func anyBody() *rapid.Generator[string] {
	whole := rapid.OneOf(
		rapid.Map(anyJSON(3), func(s string) string { return `{"data":` + s + `}` }),
		rapid.Map(anyJSON(3), func(s string) string { return `{"data":null,"message":` + s + `,"errors":` + s + `}` }),
		anyJSON(2),
		rapid.SampledFrom([]string{"", "<html>", `{"data":`, "{}", "\x00\xff"}),
	)
	return rapid.Custom(func(t *rapid.T) string {
		body := whole.Draw(t, "body")
		if rapid.IntRange(0, 9).Draw(t, "cut") == 0 && len(body) > 0 {
			body = body[:rapid.IntRange(0, len(body)-1).Draw(t, "at")]
		}
		return body
	})
}

// For any answer: nothing panics; nothing that is refused is a success; an order succeeds only with
// a task; every failure has a class and prints on one line without the token.
func TestNoAnswerIsTakenForAnother(t *testing.T) {
	names := asking()
	rapid.Check(t, func(t *rapid.T) {
		status := rapid.OneOf(
			rapid.SampledFrom([]int{0, 200, 200, 200, 201, 204, 301, 400, 401, 403, 404, 500, 500, 501, 502, 503, 504, 595, 596, 599}),
			rapid.IntRange(200, 999),
		).Draw(t, "status")
		reason := rapid.SampledFrom([]string{
			"OK", "", "VM is locked (clone)", "Configuration file 'x' does not exist", "no quorum!", "a\tb", testSecret,
		}).Draw(t, "reason")
		body := anyBody().Draw(t, "answer")
		name := rapid.SampledFrom(names).Draw(t, "call")
		call := rapid.SampledFrom(everyCall[name]).Draw(t, "options")

		k := newClock()
		c, err := Connect(Connection{
			Endpoints: []string{"https://pve1:8006", "https://pve2:8006"},
			Token:     func() (string, error) { return testToken, nil },
			Now:       k.Now,
			Wait: func(_ context.Context, d time.Duration) error {
				k.Advance(d)
				if k.Now().Sub(newClock().Now()) > time.Hour {
					return errors.New("waited for an hour")
				}
				return nil
			},
			Transport: inMemory(func(*http.Request, string) reply { return reply{status: status, reason: reason, body: body} }),
		})
		if err != nil {
			t.Fatal(err)
		}
		err = call(t.Context(), c)
		if err == nil && (status < 200 || status >= 300) {
			t.Fatalf("%s took %d %s for a success: %s", name, status, reason, body)
		}
		if err == nil && slices.Contains([]string{"Clone", "Start", "Stop", "Shutdown", "Destroy", "Upload", "Resize"}, name) && !strings.Contains(body, upidClone) {
			t.Fatalf("%s succeeded without a task: %s", name, body)
		}
		if err == nil {
			return
		}
		var e *Error
		if !errors.As(err, &e) || e.Class() == "" || strings.ContainsAny(err.Error(), "\n") || strings.Contains(err.Error(), testSecret) {
			t.Fatalf("%s: %q", name, err)
		}
		if e.Retryable() && e.Method != http.MethodGet && slices.Contains([]Class{Unanswered, Garbled, Unknown}, e.Class()) {
			t.Fatalf("%s would be repeated: %v", name, err)
		}
		_ = e.Advice()
	})
}

func FuzzNothingParsedPanics(f *testing.F) {
	for _, seed := range []string{upidClone, "UPID:a:b:c:d:e:f:g", "local:100/a.raw,size=1G", "VM is locked (x)", "1.5G", "AA:BB", "a;b,c d", testToken} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u := UPID(text)
		if u.Valid() != (u.Node() != "") || u.Valid() != (u.Type() != "") || !u.Valid() && u.ID()+u.User() != "" {
			t.Errorf("%q: valid is %v", text, u.Valid())
		}
		_ = u.said() + u.Started().String()
		if size := parseSize(text); size < 0 {
			t.Errorf("%q has the size %d", text, size)
		}
		_ = ParseDrive(text)
		_ = splitList(text)
		_, _ = parseFingerprints(text)
		_ = ValidEndpoint(text)
		if id, err := tokenID(text); err == nil && strings.Contains(id, "=") {
			t.Errorf("the name of %q has its secret in it", text)
		}
		e := &Error{Status: 500, Message: text}
		e.read()
		if e.Class() == "" {
			t.Errorf("%q has no class", text)
		}
	})
}
