package pvesim

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	ticketLife   = 2 * time.Hour
	ticketFuture = 5 * time.Minute // that a clock may be ahead
)

// authenticate finds out who asks.
func (k *call) authenticate(r *request, path string) error {
	ticket, given := cookie(r.header.Values("Cookie"))
	if !given {
		ticket, given = credential(r.header.Get("Authorization"), "PVEAuthCookie")
	}
	var token string
	if !given {
		token, k.byToken = credential(r.header.Get("Authorization"), "PVEAPIToken")
	}
	switch {
	case opened(r.method, path):
		k.who = &identity{}
		return nil
	case k.byToken:
		return k.authenticateToken(token)
	case !given:
		return unauthorized("No ticket")
	}
	return k.authenticateTicket(ticket, r, path)
}

// opened reports whether a call needs no authentication.
func opened(method, path string) bool {
	e := routes().find(path, &call{}).methods[method]
	return e != nil && e.open
}

var cookieText = regexp.MustCompile(`(?:^|\s|;)PVEAuthCookie=([^;]*)`)

func cookie(headers []string) (string, bool) {
	for _, h := range headers {
		if m := cookieText.FindStringSubmatch(h); m != nil && m[1] != "" {
			if text, err := url.PathUnescape(m[1]); err == nil {
				return text, true
			}
			return m[1], true
		}
	}
	return "", false
}

// credential is what stands in a header after a name and a = or a blank.
func credential(header, name string) (string, bool) {
	rest, found := strings.CutPrefix(header, name)
	if len(rest) < 2 || !found || rest[0] != '=' && rest[0] != ' ' {
		return "", false
	}
	return rest[1:], true
}

// refuse is why somebody is not let in. Since release 9.2 nobody is told.
func (c *Cluster) refuse(reason string) error {
	if c.since("9.2") {
		reason = "Authentication failed!"
	}
	return unauthorized(reason)
}

func unauthorized(reason string) error { return &Error{Status: 401, Reason: reason} }

func (k *call) authenticateToken(value string) error {
	id, secret, complete := cutLast(value, "=")
	if !complete {
		return k.c.refuse("no tokenid specified")
	}
	name, tokenID, isToken := strings.Cut(id, "!")
	if !isToken {
		return k.c.refuse(fmt.Sprintf("unable to parse token '%s'", id))
	}
	if err := k.c.access.usable(name, k.c.now); err != nil {
		return k.c.refuse(err.Error())
	}
	t := k.c.access.token(name, tokenID)
	switch {
	case t == nil:
		return k.c.refuse(fmt.Sprintf("no such token '%s' for user '%s'", tokenID, name))
	case t.expire > 0 && t.expire < k.c.now.Unix(), k.c.expired(&identity{name, tokenID}):
		return k.c.refuse(fmt.Sprintf("token '%s' access expired", tokenID))
	case t.secret != secret:
		return k.c.refuse("invalid token value!")
	}
	k.who = &identity{user: name, token: tokenID}
	return nil
}

func (k *call) authenticateTicket(ticket string, r *request, path string) error {
	name, err := k.c.verifyTicket(ticket)
	if err != nil {
		return err
	}
	if err := k.c.access.usable(name, k.c.now); err != nil {
		return k.c.refuse(err.Error())
	}
	k.who = &identity{user: name}
	isUpload := r.method == "POST" && uploadPath.MatchString(path)
	if r.method != "GET" && !isUpload && !k.c.verifyCSRF(name, r.header.Get("CSRFPreventionToken")) {
		return unauthorized("Permission denied - invalid csrf token")
	}
	return nil
}

// ticket makes a ticket for a user.
func (c *Cluster) ticket(name string) string {
	text := fmt.Sprintf("PVE:%s:%08X", name, c.now.Unix())
	return text + "::" + base64.StdEncoding.EncodeToString(c.access.sign(text))
}

// verifyTicket is whom a ticket is for.
func (c *Cluster) verifyTicket(ticket string) (string, error) {
	invalid := c.refuse("permission denied - invalid PVE ticket")
	text, signature, signed := strings.Cut(ticket, "::")
	rest, isTicket := strings.CutPrefix(text, "PVE:")
	name, at, complete := cutLast(rest, ":")
	if !signed || !isTicket || !complete || !c.signed(text, signature) || !c.fresh(at) {
		return "", invalid
	}
	return name, nil
}

// signed reports whether a signature is the cluster's own.
func (c *Cluster) signed(text, signature string) bool {
	sum, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(signature, "="))
	return err == nil && hmac.Equal(sum, c.access.sign(text))
}

// fresh reports whether a time in hexadecimal digits is not too long ago.
func (c *Cluster) fresh(hex string) bool {
	at, err := strconv.ParseInt(hex, 16, 64)
	age := c.now.Sub(time.Unix(at, 0))
	return err == nil && age >= -ticketFuture && age <= ticketLife
}

// csrf makes the token that proves that a request with a ticket was meant.
func (c *Cluster) csrf(name string) string {
	at := fmt.Sprintf("%08X", c.now.Unix())
	return at + ":" + strings.TrimRight(base64.StdEncoding.EncodeToString(c.access.sign("csrf:"+at+":"+name)), "=")
}

func (c *Cluster) verifyCSRF(name, token string) bool {
	at, signature, _ := strings.Cut(token, ":")
	return c.signed("csrf:"+at+":"+name, signature) && c.fresh(at)
}

// login makes a ticket for who knows a password, or has a ticket.
func login(k *call) (any, error) {
	name := k.in["username"]
	if realm := k.in["realm"]; realm != "" {
		name += "@" + realm
	}
	if err := k.knows(name, k.in["password"]); err != nil {
		return nil, unauthorized("authentication failure")
	}
	who := &identity{user: name}
	answer := map[string]any{"username": name, "cap": k.c.capabilities(who)}
	if k.in.has("path") && k.in.has("privs") {
		path := normalized(k.in["path"])
		for _, priv := range k.in.list("privs") {
			if path == "" || !k.c.may(who, path, priv) {
				return nil, unauthorized("authentication failure")
			}
		}
	} else {
		answer["ticket"], answer["CSRFPreventionToken"] = k.c.ticket(name), k.c.csrf(name)
	}
	if k.c.cfg.Name != "" && k.c.may(who, "/", "Sys.Audit") {
		answer["clustername"] = k.c.cfg.Name
	}
	return answer, nil
}

// knows checks a password, for which a ticket of the same user will do, or one of root's.
func (k *call) knows(name, password string) error {
	if err := k.c.access.usable(name, k.c.now); err != nil {
		return err
	}
	if holder, err := k.c.verifyTicket(password); err == nil && (holder == name || holder == rootUser) {
		return nil
	}
	if u := k.c.access.users[name]; u.password == "" || u.password != password {
		return errors.New("invalid credentials")
	}
	return nil
}

// sections are what the user interface asks for when it shows what somebody may.
var sections = map[string]*regexp.Regexp{
	"vms":     regexp.MustCompile(`^(?:VM\.|Permissions\.Modify)`),
	"access":  regexp.MustCompile(`^(?:(?:User|Group)\.|Permissions\.Modify)`),
	"storage": regexp.MustCompile(`^(?:Datastore\.|Permissions\.Modify)`),
	"nodes":   regexp.MustCompile(`^(?:Sys\.|Permissions\.Modify)`),
	"sdn":     regexp.MustCompile(`^(?:SDN\.|Permissions\.Modify)`),
	"dc":      regexp.MustCompile(`^(?:Sys\.Audit|Sys\.Modify|SDN\.)`),
	"mapping": regexp.MustCompile(`^(?:Mapping\.|Permissions\.Modify)`),
}

// capabilities are what somebody may anywhere in a section.
func (c *Cluster) capabilities(who *identity) map[string]map[string]int {
	caps := map[string]map[string]int{}
	for section := range sections {
		caps[section] = map[string]int{}
	}
	paths := append([]string{"/", "/nodes", "/access/groups", "/vms", "/storage", "/sdn", "/mapping"}, sorted(c.access.acl)...)
	for _, path := range paths {
		for _, priv := range c.held(who, path).all.names() {
			top := "dc"
			if parts := segments(path); len(parts) > 0 {
				top = parts[0]
			}
			for _, section := range sectionsOf(top) {
				if sections[section].MatchString(priv) {
					caps[section][priv] = 1
				}
			}
		}
	}
	return caps
}

// sectionsOf are the sections that a path counts in: what is given on a pool counts for what is in it.
func sectionsOf(top string) []string {
	switch {
	case top == "pool":
		return []string{"vms", "storage"}
	case sections[top] != nil:
		return []string{top}
	}
	return nil
}
