package pveapi

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"
	"unicode"
)

// A user's name may have an @ of its own before that of the realm, as those of OpenID providers
// have.
var tokenForm = regexp.MustCompile(`^([^\s:/!=]+@[A-Za-z][A-Za-z0-9.\-_]+![A-Za-z][A-Za-z0-9.\-_]+)=([^\s=]+)$`)

// bareToken is a token without what is around it in a file: blanks, and the mark that some editors
// begin a file with.
func bareToken(text string) string { return strings.TrimSpace(strings.TrimPrefix(text, "\ufeff")) }

// tokenID returns the part of a token that is no secret: user@realm!id.
func tokenID(token string) (string, error) {
	token = bareToken(token)
	if token == "" {
		return "", errors.New("must be user@realm!id=secret, was empty")
	}
	// A header cannot hold these, and a request that cannot be made looks like a host that is not
	// there. Nor is one the user's whose name has a letter in it that no one sees.
	control := strings.ContainsFunc(token, func(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
	if m := tokenForm.FindStringSubmatch(token); m != nil && !control {
		return m[1], nil
	}
	// What is wrong is reported by what is missing: the thing itself may be a secret.
	rule := fmt.Sprintf("must be user@realm!id=secret, and what was given (%d characters, not repeated here) ", len(token))
	head, secret, found := strings.Cut(token, "=")
	switch {
	case strings.ContainsAny(token, " \t\r\n"):
		return "", errors.New(rule + "has a space or a second line in it")
	case control:
		return "", errors.New(rule + "has a character that no token has")
	case strings.HasPrefix(token, "PVEAPIToken"):
		return "", errors.New(rule + "begins with PVEAPIToken, which belongs to the header")
	case !found:
		return "", errors.New(rule + "has no =, so either name or secret is missing")
	case secret == "" || strings.Contains(secret, "="):
		return "", errors.New(rule + "has no single secret behind its =")
	case !strings.Contains(head, "!"):
		return "", errors.New(rule + "has no ! before the token's id")
	case !strings.Contains(head, "@"):
		return "", errors.New(rule + "has no @ before the user's realm")
	default:
		return "", errors.New(rule + "has a name that Proxmox VE does not allow")
	}
}

// gate hands out the token, and keeps one that was refused from being sent over and over: every
// refusal costs the server three seconds, and a crowd of them is how attacks look.
type gate struct {
	ask  func() (string, error)
	now  func() time.Time
	warn func(string)

	mu       sync.Mutex
	last     pass              // of the token that was asked for last
	refused  [sha256.Size]byte // the token that was refused, if refusals > 0
	refusals int
	until    time.Time // when it may be tried again
	trying   bool      // a request is trying it
	reason   string
}

// pass is the leave to send one request with a token.
type pass struct {
	id, token string
	sum       [sha256.Size]byte
	trial     bool
}

const (
	firstRefusal = 5 * time.Second
	maxRefusal   = time.Minute
)

// take asks for the token. It fails at once while the same token is known not to be accepted.
func (g *gate) take() (pass, error) {
	token, err := g.ask()
	if err != nil {
		return pass{}, fmt.Errorf("token: %w", err)
	}
	token = bareToken(token)
	g.mu.Lock()
	defer g.mu.Unlock()
	if token != g.last.token || token == "" {
		id, err := tokenID(token)
		if err != nil {
			return pass{}, fmt.Errorf("token: %w", err)
		}
		g.last = pass{id: id, token: token, sum: sha256.Sum256([]byte(token))}
	}
	p := g.last
	if g.refusals == 0 || g.refused != p.sum {
		g.refusals = 0 // of a token that has been replaced
		return p, nil
	}
	// More than the longest pause is left only when the clock was set back.
	if left := g.until.Sub(g.now()); left > 0 && left <= maxRefusal || g.trying {
		return p, fmt.Errorf("token %s was refused (%s); it is tried again in %s, a new one at once",
			p.id, g.reason, max(left, 0).Round(time.Second))
	}
	g.trying, p.trial = true, true
	return p, nil
}

// report says what became of a request: whether an answer came, and whether it was a refusal.
func (g *gate) report(p pass, answered, refused bool, reason string) {
	if g.note(p, answered, refused, reason) {
		g.warn(fmt.Sprintf("token %s is not accepted: %s; nothing can be read or done until it is", p.id, reason))
	}
}

// note remembers what became of a request, and reports whether a refusal is news.
func (g *gate) note(p pass, answered, refused bool, reason string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	known := g.refusals > 0 && g.refused == p.sum
	if p.trial && known {
		g.trying = false
	}
	switch {
	case !answered:
	case !refused:
		if known {
			g.refusals = 0
		}
	case known && !p.trial:
		// One of several that were under way together: the refusal is counted once.
	default:
		if !known {
			g.refusals, g.trying = 0, false
		}
		g.refused, g.reason = p.sum, reason
		g.until = g.now().Add(min(firstRefusal<<min(g.refusals, 10), maxRefusal))
		g.refusals++
		return g.refusals == 1
	}
	return false
}

// Account is who Plimsoll is to a cluster: a user, and one of its tokens.
type Account struct {
	User  string // user@realm
	Token string // without the user
}

// ParseToken returns whose token it is. Errors do not repeat it.
func ParseToken(token string) (Account, error) {
	id, err := tokenID(token)
	if err != nil {
		return Account{}, err
	}
	user, name, _ := strings.Cut(id, "!")
	return Account{user, name}, nil
}

// String is the token's name, user@realm!token.
func (a Account) String() string { return a.User + "!" + a.Token }

// What Proxmox VE takes as names of users, realms and tokens.
var (
	userForm  = regexp.MustCompile(`^[^\s:/@!=]+@[A-Za-z][A-Za-z0-9._-]+$`)
	tokenName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]+$`)
)

// ValidUser reports whether the text may name a user with its realm.
func ValidUser(name string) bool { return userForm.MatchString(name) }

// ValidTokenName reports whether the text may name a token of a user.
func ValidTokenName(name string) bool { return tokenName.MatchString(name) }
