package notify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Receiver is an address that gets notices.
type Receiver struct {
	Name string
	// URL is where notices are posted to. It is a secret as a rule, and never logged.
	URL string
	// Token is sent as a bearer token, if there is one.
	Token string
	// Renew reads both anew before each attempt, if they are in files: a secret may be rotated.
	Renew func(*Receiver) error
	// Format is how notices are written; empty is JSON.
	Format Format
	// All gets notices of every object, others only of those that name them.
	All bool
	// Conditions are those that it gets notices of, and Scaled for changes of replicas; nil is all.
	Conditions []string
}

// Format is how a notice is written.
type Format string

// How a notice is written.
const (
	JSON Format = "JSON" // a Notice, with the receiver's name
	// A text, as Slack's incoming webhooks take it, and Mattermost's and others'.
	Slack Format = "Slack"
)

// waiting is how many notices wait for one receiver. What comes beyond that is dropped and said so.
const waiting = 100

// pauses are how long is waited before it is tried again.
var pauses = []time.Duration{time.Second, 5 * time.Second, 25 * time.Second}

// Sender brings notices to receivers.
type Sender struct {
	receivers []*queue
	client    *http.Client
	log       *slog.Logger
	// Done is called for every notice that arrived, or was given up.
	Done func(receiver string, arrived bool)
}

type queue struct {
	Receiver
	notices chan Notice
}

// NewSender makes a sender. It sends nothing before Run.
func NewSender(receivers []Receiver, client *http.Client, log *slog.Logger) *Sender {
	stays := *client
	// A redirect would make a GET without the notice of the POST, and its answer count as delivery.
	stays.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	s := &Sender{client: &stays, log: log, Done: func(string, bool) {}}
	for _, r := range receivers {
		s.receivers = append(s.receivers, &queue{r, make(chan Notice, waiting)})
	}
	return s
}

// Names are the receivers' names.
func (s *Sender) Names() []string {
	var names []string
	for _, q := range s.receivers {
		names = append(names, q.Name)
	}
	return names
}

// Known reports whether there is a receiver of that name.
func (s *Sender) Known(name string) bool {
	return slices.ContainsFunc(s.receivers, func(q *queue) bool { return q.Name == name })
}

// Tell queues a notice for the named receivers, and for those of all objects. It does not wait.
func (s *Sender) Tell(names []string, n Notice) {
	for _, q := range s.receivers {
		if !q.All && !slices.Contains(names, q.Name) || !q.wants(&n) {
			continue
		}
		select {
		case q.notices <- n:
		default:
			s.log.Warn("notification dropped: too many wait", "receiver", q.Name, "about", n.object(), "reason", n.Reason)
			s.Done(q.Name, false)
		}
	}
}

func (r *Receiver) wants(n *Notice) bool {
	what := n.Condition
	if n.Status == Scaled {
		what = string(Scaled)
	}
	return r.Conditions == nil || slices.Contains(r.Conditions, what)
}

// Run sends until the context is done. What still waits then is not sent.
func (s *Sender) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, q := range s.receivers {
		all.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case n := <-q.notices:
					s.deliver(ctx, &q.Receiver, &n)
				}
			}
		})
	}
}

// deliver sends a notice, and tries again for a while.
func (s *Sender) deliver(ctx context.Context, r *Receiver, n *Notice) {
	var err error
	for i := range len(pauses) + 1 {
		if i > 0 && !rest(ctx, pauses[i-1]) {
			return
		}
		if err = s.post(ctx, r, n); err == nil {
			s.Done(r.Name, true)
			return
		}
		if refused := (refusal{}); errors.As(err, &refused) {
			break
		}
	}
	s.log.Warn("notification not delivered", "receiver", r.Name, "about", n.object(), "reason", n.Reason, "error", err)
	s.Done(r.Name, false)
}

func rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// refusal is an answer that would be the same another time.
type refusal struct{ status string }

func (r refusal) Error() string { return "refused with " + r.status }

// post sends a notice once. The error does not contain the address.
func (s *Sender) post(ctx context.Context, r *Receiver, n *Notice) error {
	if r.Renew != nil {
		now := *r
		if err := r.Renew(&now); err != nil {
			return err
		}
		r = &now
	}
	body, err := r.body(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("its address cannot be understood")
	}
	request.Header.Set("Content-Type", "application/json")
	if r.Token != "" {
		request.Header.Set("Authorization", "Bearer "+r.Token)
	}
	answer, err := s.client.Do(request)
	if unwrapped := (&url.Error{}); errors.As(err, &unwrapped) {
		err = unwrapped.Err
	}
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	_, _ = io.CopyN(io.Discard, answer.Body, 1<<16) // so that the connection can be used again
	switch code := answer.StatusCode; {
	case code < 300:
		return nil
	case code == http.StatusTooManyRequests || code >= 500:
		return fmt.Errorf("answered with %s", answer.Status)
	}
	if to, err := answer.Location(); err == nil && answer.StatusCode < 400 {
		// The rest of the location may be secret.
		return refusal{answer.Status + " to " + to.Host + ": give the address there"}
	}
	return refusal{answer.Status}
}

// body writes a notice as the receiver reads it.
func (r *Receiver) body(n *Notice) ([]byte, error) {
	if r.Format == Slack {
		return json.Marshal(map[string]string{"text": slackText(n)})
	}
	return json.Marshal(struct {
		Receiver string `json:"receiver"`
		Notice
	}{r.Name, *n})
}

// slackEscapes are the three characters that mean something there.
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slackText(n *Notice) string {
	what := n.Reason
	if n.Condition != "" {
		what = n.Condition + " (" + n.Reason + ")"
	}
	return slackEscapes.Replace(fmt.Sprintf("*%s* %s: %s\n%s", n.Status, n.object(), what, n.Text))
}
