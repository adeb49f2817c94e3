package pvesim

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
)

// authenticate finds out who asks.
func (k exchange) authenticate(r *request, path string) error {
	ticket, given := cookie(r.header.Values("Cookie"))
	if !given {
		ticket, given = credential(r.header.Get("Authorization"), "PVEAuthCookie")
	}
	var token string
	if !given {
		token, k.ByToken = credential(r.header.Get("Authorization"), "PVEAPIToken")
	}
	switch {
	case opened(r.method, path):
		k.Who = &access.Identity{}
		return nil
	case k.ByToken:
		return k.authenticateToken(token)
	case !given:
		return failure.Unauthorized("No ticket")
	}
	return k.authenticateTicket(ticket, r, path)
}

// opened reports whether a call needs no authentication.
func opened(method, path string) bool {
	e := routes().find(path, &api.Call{}).methods[method]
	return e != nil && e.Open
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

// credential is what is in a header after a name and a = or a blank.
func credential(header, name string) (string, bool) {
	rest, found := strings.CutPrefix(header, name)
	if len(rest) < 2 || !found || rest[0] != '=' && rest[0] != ' ' {
		return "", false
	}
	return rest[1:], true
}

// refuse is why a login is refused. Since release 9.2 the answer does not say it.
func (k exchange) refuse(reason string) error {
	if k.World.Since("9.2") {
		reason = "Authentication failed!"
	}
	return failure.Unauthorized(reason)
}

func (k exchange) authenticateToken(value string) error {
	id, secret, complete := api.CutLast(value, "=")
	if !complete {
		return k.refuse("no tokenid specified")
	}
	name, tokenID, isToken := strings.Cut(id, "!")
	if !isToken {
		return k.refuse(fmt.Sprintf("unable to parse token '%s'", id))
	}
	if err := k.World.Access.Usable(name, k.World.Clock); err != nil {
		return k.refuse(err.Error())
	}
	t := k.World.Access.Token(name, tokenID)
	switch {
	case t == nil:
		return k.refuse(fmt.Sprintf("no such token '%s' for user '%s'", tokenID, name))
	case t.Expire > 0 && t.Expire < k.World.Clock.Unix(), k.World.Faults.Expired(&access.Identity{User: name, Token: tokenID}):
		return k.refuse(fmt.Sprintf("token '%s' access expired", tokenID))
	case t.Secret != secret:
		return k.refuse("invalid token value!")
	}
	k.Who = &access.Identity{User: name, Token: tokenID}
	return nil
}

func (k exchange) authenticateTicket(ticket string, r *request, path string) error {
	name, valid := k.World.Access.VerifyTicket(ticket, k.World.Clock)
	if !valid {
		return k.refuse("permission denied - invalid PVE ticket")
	}
	if err := k.World.Access.Usable(name, k.World.Clock); err != nil {
		return k.refuse(err.Error())
	}
	k.Who = &access.Identity{User: name}
	isUpload := r.method == "POST" && uploadPath.MatchString(path)
	if r.method != "GET" && !isUpload && !k.World.Access.VerifyCSRF(name, r.header.Get("CSRFPreventionToken"), k.World.Clock) {
		return failure.Unauthorized("Permission denied - invalid csrf token")
	}
	return nil
}

// login makes a ticket for who knows a password, or has a ticket.
func login(k *api.Call) (any, error) {
	name := k.In["username"]
	if realm := k.In["realm"]; realm != "" {
		name += "@" + realm
	}
	if err := knowsPassword(k, name, k.In["password"]); err != nil {
		return nil, failure.Unauthorized("authentication failure")
	}
	who := &access.Identity{User: name}
	answer := map[string]any{"username": name, "cap": k.World.Access.Capabilities(who)}
	if k.In.Has("path") && k.In.Has("privs") {
		path := access.Normalized(k.In["path"])
		for _, priv := range k.In.List("privs") {
			if path == "" || !k.World.Access.May(who, path, priv) {
				return nil, failure.Unauthorized("authentication failure")
			}
		}
	} else {
		answer["ticket"], answer["CSRFPreventionToken"] = k.World.Access.Ticket(name, k.World.Clock), k.World.Access.Csrf(name, k.World.Clock)
	}
	if k.World.Config.Name != "" && k.World.Access.May(who, "/", "Sys.Audit") {
		answer["clustername"] = k.World.Config.Name
	}
	return answer, nil
}

// knowsPassword checks a password, for which a ticket of the same user will do, or one of root's.
func knowsPassword(k *api.Call, name, password string) error {
	if err := k.World.Access.Usable(name, k.World.Clock); err != nil {
		return err
	}
	if holder, valid := k.World.Access.VerifyTicket(password, k.World.Clock); valid && (holder == name || holder == access.RootUser) {
		return nil
	}
	if u := k.World.Access.Users[name]; u.Password == "" || u.Password != password {
		return errors.New("invalid credentials")
	}
	return nil
}

var loginEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/access/ticket", Open: true, Do: func(*api.Call) (any, error) { return nil, nil }},
	{Method: "POST", Path: "/access/ticket", Open: true, NotToken: true, Protected: true, Do: login,
		In: `username:str[..64] realm?:realm[..32] password:str otp?:str path?:str[..64]&privs privs?:priv-list[..64]&path
			new-format?:bool tfa-challenge?:str`},
}
