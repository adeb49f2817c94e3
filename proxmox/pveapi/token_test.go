package pveapi

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestATokenIsRefusedWithoutBeingRepeated(t *testing.T) {
	for token, want := range map[string]string{
		testToken:                        "",
		" " + testToken + "\n":           "",
		"\ufeff" + testToken + "\r\n":    "", // as an editor on Windows leaves it
		"root@pam!a.b-c_1=x":             "",
		"jane@example.com@oidc!t1=x":     "",
		"root@pam!t1=SECRET\x01":         "a character that no token has",
		"ro\x7fot@pam!t1=SECRET":         "a character that no token has",
		"ro\u200bot@pam!t1=SECRET":       "a character that no token has",
		"":                               "was empty",
		"root@pam!t1":                    "has no =",
		"root@pam!t1=":                   "has no single secret",
		"root@pam!t1=a=b":                "has no single secret",
		"root@pam=SECRET":                "has no !",
		"root!t1=SECRET":                 "has no @",
		"PVEAPIToken=root@pam!t1=SECRET": "begins with PVEAPIToken",
		"root@pam!t1=SECRET\nx":          "a second line",
		"root@pam!t 1=SECRET":            "has a space",
		"root@pam!t=SECRET":              "a name that Proxmox VE does not allow",
		"@pam!t1=SECRET":                 "a name that Proxmox VE does not allow",
	} {
		id, err := tokenID(token)
		switch {
		case want == "" && (err != nil || strings.Contains(id, "=")):
			t.Errorf("%q: %q, %v", token, id, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "SECRET")):
			t.Errorf("%q: %v, want %q", token, err, want)
		}
	}
}

// What is sent is the token alone: with the mark of its file it would be refused as one that is not
// known.
func TestATokenIsSentWithoutTheMarkOfItsFile(t *testing.T) {
	g := gate{ask: func() (string, error) { return "\ufeff" + testToken + "\n", nil }, now: time.Now}
	if p, err := g.take(); err != nil || p.token != testToken {
		t.Errorf("%q, %v", p.token, err)
	}
}

// changing is a token file that changes while it is read.
type changing struct {
	mu    sync.Mutex
	token string
	err   error
}

func (c *changing) read() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.token, c.err
}

func (c *changing) write(token string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.token, c.err = token, err
}

func TestATokenThatIsRefusedIsNotHammered(t *testing.T) {
	var asked atomic.Int32
	var r record
	file := &changing{token: testToken}
	good := "PVEAPIToken=" + testTokenID + "=new"
	c, k := virtual(t, 1, func(req *http.Request, _ string) reply {
		asked.Add(1)
		if req.Header.Get("Authorization") != good {
			return reply{status: 401, reason: "Authentication failed!"}
		}
		return answerTo(req)
	}, r.in, func(c *Connection) { c.Token = file.read })
	for i, step := range []struct {
		pass time.Duration
		sent int32
	}{
		{0, 1}, {0, 0}, {4 * time.Second, 0}, {time.Second, 1}, // after 5 s
		{9 * time.Second, 0}, {time.Second, 1}, // 10 s
		{20 * time.Second, 1}, {40 * time.Second, 1}, // 20 s, 40 s
		{59 * time.Second, 0}, {time.Second, 1}, {time.Minute, 1}, // a minute, and no more
	} {
		k.Advance(step.pass)
		before := asked.Load()
		err := read(t.Context(), c)
		if !Is(err, Unauthorized) || !strings.Contains(err.Error(), "Authentication failed!") || Retryable(err) {
			t.Errorf("step %d: %v", i, err)
		}
		if sent := asked.Load() - before; sent != step.sent {
			t.Errorf("step %d: %d requests, want %d", i, sent, step.sent)
		}
	}
	if warns := r.warned(); len(warns) != 1 || !strings.Contains(warns[0], testTokenID) || strings.Contains(warns[0], testSecret) {
		t.Errorf("warned %q", warns)
	}
	file.write(testTokenID+"=new", nil)
	if err := read(t.Context(), c); err != nil {
		t.Errorf("a new token is tried at once: %v", err)
	}
	file.write(testToken, nil)
	if err := read(t.Context(), c); !Is(err, Unauthorized) {
		t.Errorf("%v", err)
	}
	if warns := r.warned(); len(warns) != 2 {
		t.Errorf("warned %q", warns)
	}
}

// Those that were under way together are one refusal, and those that come later are not sent.
func TestManyRefusalsAtATimeAreOne(t *testing.T) {
	var asked atomic.Int32
	all := make(chan struct{})
	var r record
	c, k := virtual(t, 1, func(*http.Request, string) reply {
		if asked.Add(1) == 8 {
			close(all)
		}
		<-all
		return reply{status: 401, reason: "No ticket"}
	}, r.in)
	var crowd sync.WaitGroup
	for range 8 {
		crowd.Go(func() {
			if err := read(t.Context(), c); !Is(err, Unauthorized) {
				t.Error(err)
			}
		})
	}
	crowd.Wait()
	if warns := r.warned(); len(warns) != 1 {
		t.Errorf("warned %q", warns)
	}
	k.Advance(firstRefusal) // counted once, it is tried again after the first pause
	for range 8 {
		crowd.Go(func() { _ = read(t.Context(), c) })
	}
	crowd.Wait()
	if n := asked.Load(); n != 9 {
		t.Errorf("%d requests, want one more than 8", n)
	}
}

// One request at a time finds out whether a token is accepted again; the others fail at once.
func TestARefusedTokenIsTriedByOne(t *testing.T) {
	var asked atomic.Int32
	entered, release := make(chan struct{}), make(chan struct{})
	c, k := virtual(t, 1, func(r *http.Request, _ string) reply {
		if asked.Add(1) == 1 {
			return reply{status: 401, reason: "No ticket"}
		}
		close(entered)
		<-release
		return answerTo(r)
	})
	_ = read(t.Context(), c)
	k.Advance(firstRefusal)
	var trial sync.WaitGroup
	trial.Go(func() {
		if err := read(t.Context(), c); err != nil {
			t.Error(err)
		}
	})
	<-entered
	for range 5 {
		if err := read(t.Context(), c); !Is(err, Unauthorized) {
			t.Errorf("%v", err)
		}
	}
	close(release)
	trial.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// A host that has lost sight of the cluster's users refuses everybody: the next try is another's.
func TestAHostThatRefusesEverybodyDoesNotShutTheOthersOut(t *testing.T) {
	var r record
	c, k := virtual(t, 2, func(req *http.Request, _ string) reply {
		if strings.HasPrefix(req.URL.Host, "pve1") {
			return reply{status: 401, reason: "No ticket"}
		}
		return answerTo(req)
	}, r.in)
	if err := read(t.Context(), c); !Is(err, Unauthorized) {
		t.Errorf("%v", err)
	}
	k.Advance(firstRefusal)
	for range 3 {
		if err := read(t.Context(), c); err != nil {
			t.Errorf("%v", err)
		}
	}
	if tried := r.hosts(); tried != "pve1 pve2 pve2 pve2" {
		t.Errorf("tried %s", tried)
	}
}

// What comes of a request with the token of before says nothing of the one that was refused since.
func TestAnAnswerToTheTokenOfBeforeDoesNotPardonTheNewOne(t *testing.T) {
	var asked atomic.Int32
	entered, release := make(chan struct{}), make(chan struct{})
	file := &changing{token: testToken}
	c, _ := virtual(t, 1, func(req *http.Request, _ string) reply {
		if req.Header.Get("Authorization") == "PVEAPIToken="+testToken {
			close(entered)
			<-release
			return answerTo(req)
		}
		asked.Add(1)
		return reply{status: 401, reason: "Authentication failed!"}
	}, func(c *Connection) { c.Token = file.read })
	var before sync.WaitGroup
	before.Go(func() { _ = read(t.Context(), c) })
	<-entered
	file.write(testTokenID+"=new", nil)
	_ = read(t.Context(), c)
	close(release)
	before.Wait()
	if err := read(t.Context(), c); !Is(err, Unauthorized) || asked.Load() != 1 {
		t.Errorf("%v after %d requests with the new token", err, asked.Load())
	}
}

// A try that reached no one has said nothing about the token.
func TestATrialThatReachesNobodyIsRepeated(t *testing.T) {
	answers := []reply{{status: 401, reason: "No ticket"}, refuseDial, goodVersion}
	var n atomic.Int32
	c, k := virtual(t, 1, func(*http.Request, string) reply { return answers[n.Add(1)-1] })
	for i, want := range []Class{Unauthorized, NoEndpoint, ""} {
		if err := read(t.Context(), c); ClassOf(err) != want {
			t.Errorf("step %d: %v, want %q", i, err, want)
		}
		k.Advance(firstRefusal)
	}
}

func TestATokenThatCannotBeReadSendsNothing(t *testing.T) {
	var asked atomic.Int32
	file := &changing{token: testToken}
	c, _ := virtual(t, 1, func(r *http.Request, _ string) reply { asked.Add(1); return answerTo(r) },
		func(c *Connection) { c.Token = file.read })
	gone := errors.New("open /etc/plimsoll/token: no such file")
	for _, step := range []struct {
		token string
		err   error
	}{{"", gone}, {"", nil}, {"half-writ", nil}} {
		file.write(step.token, step.err)
		err := write(t.Context(), c)
		if !Is(err, Unauthorized) || asked.Load() != 0 || step.err != nil && !errors.Is(err, step.err) {
			t.Errorf("%v after %d requests", err, asked.Load())
		}
	}
	file.write(testToken, nil)
	if err := write(t.Context(), c); err != nil {
		t.Error(err)
	}
}
