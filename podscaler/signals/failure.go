package signals

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
)

// What a status says of a server that did not serve. It is all that it says: whoever may write an
// object may name a server that is not theirs, and must not learn from a status what is behind it.
const (
	refusedByPolicy = "refused by policy"
	unreachable     = "unreachable"
	invalidAnswer   = "invalid answer"
)

// failure is why a server was not asked, or did not answer. Its text is for everybody, and the
// detail for the administrator's log.
type failure struct {
	word   string
	detail error
	hung   bool // it did not answer in time
}

func (f *failure) Error() string { return f.word }

// denied is what may not be done.
func denied(format string, args ...any) *failure {
	return &failure{word: refusedByPolicy, detail: fmt.Errorf(format, args...)}
}

// invalid is an answer that cannot be used.
func invalid(format string, args ...any) *failure {
	return &failure{word: invalidAnswer, detail: fmt.Errorf(format, args...)}
}

// failed makes a failure of what came of a request.
func failed(ctx context.Context, err error) error {
	var f *failure
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return &failure{word: unreachable, detail: errNoAnswer, hung: true}
	case errors.As(err, &f):
		return f
	}
	var network net.Error
	return &failure{word: unreachable, detail: plain(ctx, err), hung: errors.As(err, &network) && network.Timeout()}
}

var errNoAnswer = errors.New("no answer in time")

// complaint has the log say what is wrong with a server once, until it is something else.
type complaint struct {
	mu   sync.Mutex
	said string
}

// hear logs a failure, if it is another than the last. Nil is a server that serves.
func (c *complaint) hear(log *slog.Logger, namespace, server string, err error) {
	if errors.Is(err, errPutOff) || errors.Is(err, errOpen) {
		return // which says nothing new of it
	}
	text, word := "", ""
	if f, ok := errors.AsType[*failure](err); ok {
		word, text = f.word, short(f.detail.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text == c.said {
		return
	}
	if c.said = text; text != "" && log != nil {
		log.Warn("signals: a server is not measured by", "namespace", namespace, "server", redactText(server), "is", word, "because", text)
	}
}

// maxText is how much of a server's own words is passed on.
const maxText = 300

// plain makes of an error what a person needs, and what is the same each time it happens: no
// address of ours, no page of HTML.
func plain(ctx context.Context, err error) error {
	var network *net.OpError
	var dns *net.DNSError
	var request *url.Error
	var f *failure
	switch {
	case ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded):
		return errNoAnswer
	case errors.As(err, &f):
		return f.detail
	case errors.As(err, &dns):
		return fmt.Errorf("no address for %s", dns.Name)
	case errors.As(err, &network):
		where := ""
		if network.Addr != nil {
			where = " " + network.Addr.String()
		}
		return fmt.Errorf("%s%s: %w", network.Op, where, root(network.Err))
	case errors.As(err, &request):
		return errors.New(short(request.Err.Error()))
	}
	return errors.New(short(err.Error()))
}

// root is the error that all others are wrapped around.
func root(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func short(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}
