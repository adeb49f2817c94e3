package pveapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// What is made here is what machines need around them: a resource pool to be put into, and a token
// with rights of its own for whoever makes them.

// roleName is what Proxmox VE takes as the name of a role.
var roleName = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

// poolName is what it takes as the name of a resource pool.
var poolName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// MakePool makes a resource pool.
func (c *Client) MakePool(ctx context.Context, name, comment string) error {
	const path = "/pools"
	if !poolName.MatchString(name) {
		return invalid(http.MethodPost, path, "poolid must name a resource pool, was %q", name)
	}
	params := map[string]any{"poolid": name}
	if comment != "" {
		params["comment"] = comment
	}
	_, err := c.call(ctx, http.MethodPost, path, params)
	return err
}

// RemovePool removes a resource pool, which the server does only if nothing is in it.
func (c *Client) RemovePool(ctx context.Context, name string) error {
	const path = "/pools"
	if !poolName.MatchString(name) {
		return invalid(http.MethodDelete, path, "poolid must name a resource pool, was %q", name)
	}
	_, err := c.call(ctx, http.MethodDelete, path+"?"+url.Values{"poolid": {name}}.Encode(), nil)
	return err
}

// Make orders the machine with the keys of its configuration, and with pool the resource pool it is
// put into.
func (v VM) Make(ctx context.Context, values map[string]string) (UPID, error) {
	if _, err := v.path(http.MethodPost, ""); err != nil {
		return "", err
	}
	path, err := onNode(http.MethodPost, v.node, "/qemu")
	if err != nil {
		return "", err
	}
	params := map[string]any{}
	for key, value := range values {
		params[key] = value
	}
	params["vmid"] = v.id
	return v.c.order(ctx, http.MethodPost, path, params)
}

// MakeTemplate orders a machine that does not run to be made a template.
func (v VM) MakeTemplate(ctx context.Context) (UPID, error) {
	path, err := v.path(http.MethodPost, "/template")
	if err != nil {
		return "", err
	}
	return v.c.order(ctx, http.MethodPost, path, nil)
}

// accountPath is the path of a token, or of all of its user's.
func accountPath(method string, who Account, rest string) (string, error) {
	path := "/access/users/" + url.PathEscape(who.User) + "/token" + rest
	if !ValidUser(who.User) || !ValidTokenName(who.Token) {
		return "", invalid(method, path, "a token must be user@realm!name, was %q", who.String())
	}
	return path, nil
}

// TokenExists reports whether a user has a token of that name.
func (a Access) TokenExists(ctx context.Context, who Account) (bool, error) {
	path, err := accountPath(http.MethodGet, who, "")
	if err != nil {
		return false, err
	}
	list, err := get[[]fields](ctx, a.c, path, nil)
	return slices.ContainsFunc(list, func(f fields) bool { return f.text("tokenid") == who.Token }), err
}

// MakeToken makes a token that may nothing until it is granted something, and returns it whole, as
// it is in a token's file. The server returns its secret this once.
func (a Access) MakeToken(ctx context.Context, who Account, comment string) (string, error) {
	path, err := accountPath(http.MethodPost, who, "/"+who.Token)
	if err != nil {
		return "", err
	}
	data, err := a.c.call(ctx, http.MethodPost, path, map[string]any{"privsep": 1, "comment": comment})
	if err != nil {
		return "", err
	}
	var f fields
	if err := json.Unmarshal(data, &f); err != nil || f.text("value") == "" {
		return "", &Error{Method: http.MethodPost, Path: path, Message: "the answer has no value of the token", class: Unanswered}
	}
	return who.String() + "=" + f.text("value"), nil
}

// RemoveToken removes a token.
func (a Access) RemoveToken(ctx context.Context, who Account) error {
	path, err := accountPath(http.MethodDelete, who, "/"+who.Token)
	if err != nil {
		return err
	}
	_, err = a.c.call(ctx, http.MethodDelete, path, nil)
	return err
}

// MakeRole makes a role with its privileges.
func (a Access) MakeRole(ctx context.Context, name string, privileges []string) error {
	const path = "/access/roles"
	if !roleName.MatchString(name) {
		return invalid(http.MethodPost, path, "roleid must name a role, was %q", name)
	}
	_, err := a.c.call(ctx, http.MethodPost, path, map[string]any{"roleid": name, "privs": strings.Join(privileges, ",")})
	return err
}

// RemoveRole removes a role.
func (a Access) RemoveRole(ctx context.Context, name string) error {
	if !roleName.MatchString(name) {
		return invalid(http.MethodDelete, "/access/roles", "roleid must name a role, was %q", name)
	}
	_, err := a.c.call(ctx, http.MethodDelete, "/access/roles/"+name, nil)
	return err
}

// Grant gives a token a role on a path, and with below on all that lies below it.
func (a Access) Grant(ctx context.Context, path, role string, who Account, below bool) error {
	_, err := a.c.call(ctx, http.MethodPut, "/access/acl", map[string]any{
		"path": path, "roles": role, "tokens": who.String(), "propagate": bit(below),
	})
	return err
}

// Grant is a role of a user or token on a path.
type Grant struct {
	Path, Role string
	Who        string // a user, group or token
}

// Grants returns the grants that the token may see.
func (a Access) Grants(ctx context.Context) ([]Grant, error) {
	list, err := get[[]fields](ctx, a.c, "/access/acl", nil)
	if err != nil {
		return nil, err
	}
	all := make([]Grant, 0, len(list))
	for _, f := range list {
		all = append(all, Grant{f.text("path"), f.text("roleid"), f.text("ugid")})
	}
	return all, nil
}
