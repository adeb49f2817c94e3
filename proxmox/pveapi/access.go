package pveapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Permissions are the privileges of a token, by path. A privilege that is there is held on that
// path; true says that it is held below the path as well.
type Permissions map[string]map[string]bool

// Has reports whether a privilege is held on a path. The server lists the paths that any rule is
// about; on another one holds what is handed down by the nearest above it.
func (p Permissions) Has(path, privilege string) bool {
	if held, listed := p[path]; listed {
		_, has := held[privilege]
		return has
	}
	for strings.HasPrefix(path, "/") && path != "/" {
		path = path[:strings.LastIndexByte(path, '/')]
		if path == "" {
			path = "/"
		}
		if held, listed := p[path]; listed {
			return held[privilege]
		}
	}
	return false
}

// Access is what users and tokens may do, to be asked and granted.
type Access struct{ c *Client }

// Access returns the cluster's rights. It asks nothing.
func (c *Client) Access() Access { return Access{c} }

// Permissions asks what the token itself may do. It is the only sure way to know: other calls
// answer a token without rights with empty lists.
func (a Access) Permissions(ctx context.Context) (map[string]map[string]bool, error) {
	raw, err := get[map[string]fields](ctx, a.c, "/access/permissions", nil)
	if err != nil {
		return nil, err
	}
	all := make(map[string]map[string]bool, len(raw))
	for path, privileges := range raw {
		held := make(map[string]bool, len(privileges))
		for name := range privileges {
			held[name] = privileges.is(name)
		}
		all[path] = held
	}
	return all, nil
}

// PermissionsOn asks what the token itself may do on one path.
func (a Access) PermissionsOn(ctx context.Context, path string) (map[string]bool, error) {
	answer, err := get[map[string]fields](ctx, a.c, "/access/permissions", url.Values{"path": {path}})
	held := map[string]bool{}
	for privilege := range answer[path] {
		held[privilege] = answer[path].is(privilege)
	}
	return held, err
}

// Roles returns the roles and what privileges they have, sorted.
func (a Access) Roles(ctx context.Context) (map[string][]string, error) {
	list, err := get[[]fields](ctx, a.c, "/access/roles", nil)
	if err != nil {
		return nil, err
	}
	all := make(map[string][]string, len(list))
	for _, f := range list {
		all[f.text("roleid")] = f.list("privs")
	}
	return all, nil
}

// ResourcePool is a pool of Proxmox VE and what is in it.
type ResourcePool struct {
	Name    string
	Comment string
	Members []Resource // sorted by ID
}

// Pool returns a pool. One that is not there is an Error of class NoPool.
func (c *Client) Pool(ctx context.Context, name string) (ResourcePool, error) {
	const path = "/pools"
	list, err := get[[]fields](ctx, c, path, url.Values{"poolid": {name}})
	if err != nil {
		return ResourcePool{}, err
	}
	for _, f := range list {
		if f.text("poolid") == name {
			return pool(f)
		}
	}
	return ResourcePool{}, &Error{Method: http.MethodGet, Path: path, Message: "the answer does not have pool '" + name + "'", class: Garbled}
}

func pool(f fields) (ResourcePool, error) {
	p := ResourcePool{Name: f.text("poolid"), Comment: f.text("comment")}
	var members []resourceRead
	if len(f["members"]) == 0 {
		return p, nil
	}
	if err := json.Unmarshal(f["members"], &members); err != nil {
		return ResourcePool{}, &Error{Method: http.MethodGet, Path: "/pools", Message: "the pool's members are of another kind: " + err.Error(), class: Garbled, cause: err}
	}
	for i := range members {
		p.Members = append(p.Members, members[i].resource())
	}
	slices.SortFunc(p.Members, func(a, b Resource) int { return cmp.Compare(a.ID, b.ID) })
	return p, nil
}

// TagRules are the datacenter's rules on who may set which tags.
type TagRules struct {
	Mode     string   // free, list and others; empty where nothing is set
	Allowed  []string // by those rules
	Listed   []string // that the datacenter's options allow besides
	Reserved []string // that take more rights
}

// TagRules reads the rules from the datacenter's options.
func (c *Client) TagRules(ctx context.Context) (TagRules, error) {
	options, err := get[fields](ctx, c, "/cluster/options", nil)
	if err != nil {
		return TagRules{}, err
	}
	r := TagRules{Listed: listOf(options["allowed-tags"]), Reserved: listOf(options["registered-tags"])}
	r.Mode, r.Allowed = tagAccess(options["user-tag-access"])
	return r, nil
}

// tagAccess reads who may set which tags: an object, or a property string as in the file.
func tagAccess(raw json.RawMessage) (mode string, allowed []string) {
	var object fields
	if json.Unmarshal(raw, &object) == nil {
		return object.text("user-allow"), listOf(object["user-allow-list"])
	}
	_, named := Properties(asText(raw))
	return named["user-allow"], splitList(named["user-allow-list"])
}

// listOf reads a list of texts, or one text with all of them.
func listOf(raw json.RawMessage) []string {
	var all []string
	if json.Unmarshal(raw, &all) == nil {
		return all
	}
	return splitList(asText(raw))
}
