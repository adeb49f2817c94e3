package ha

import (
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// sid is the service that the call names: by its name, or by the number of its virtual machine.
func (k *call) sid() (string, error) {
	sid := k.In["sid"]
	if id, err := strconv.Atoi(sid); err == nil {
		if !k.World.Exists(k.Node, id) {
			return "", failure.New("unable do add resource - VM/CT %d does not exist", id)
		}
		return world.SIDOf(id), nil
	}
	return sid, nil
}

func getHAResources(k *call) (any, error) {
	all := []any{}
	for _, sid := range world.Sorted(k.World.HA.Resources) {
		if kind, _, _ := strings.Cut(sid, ":"); !k.In.Has("type") || k.In["type"] == kind {
			all = append(all, managerOf(k.World).resource(sid))
		}
	}
	return all, nil
}

func (a manager) resource(sid string) map[string]any {
	out := haEntry(a.Resources, haResourceSchema, "sid", sid)
	out["type"], _, _ = strings.Cut(sid, ":")
	return out
}

func getHAResource(k *call) (any, error) {
	sid, err := k.sid()
	if err != nil {
		return nil, err
	}
	if k.World.HA.Resources[sid] == nil {
		return nil, failure.New("no such resource '%s'", sid)
	}
	return managerOf(k.World).resource(sid), nil
}

// groupsGone refuses what groups were for, where rules have taken their place.
func (k *call) groupsGone(what string) error {
	if k.World.Since("9.0") {
		return failure.New("%s: ha groups have been migrated to rules", what)
	}
	return nil
}

func (k *call) checkGroup() error {
	if !k.In.Has("group") {
		return nil
	}
	if err := k.groupsGone("invalid parameter 'group'"); err != nil {
		return err
	}
	if k.World.HA.Groups[k.In["group"]] == nil {
		return failure.New("HA group '%s' does not exist", k.In["group"])
	}
	return nil
}

func addHAResource(k *call) (any, error) {
	if err := k.World.NeedQuorum(k.Node); err != nil {
		return nil, err
	}
	sid, err := k.sid()
	if err != nil {
		return nil, err
	}
	kind, _, _ := strings.Cut(sid, ":")
	if k.In.Has("type") && k.In["type"] != kind {
		return nil, failure.New("types does not match")
	}
	if kind != "vm" || k.World.HA.VMOf(sid) == nil {
		return nil, failure.New("resource '%s' does not exist in cluster", sid)
	}
	if err := k.checkGroup(); err != nil {
		return nil, err
	}
	if err := k.lockHA("create resource failed"); err != nil {
		return nil, err
	}
	if k.World.HA.Resources[sid] != nil {
		return nil, failure.New("create resource failed: resource ID '%s' already defined", sid)
	}
	r := map[string]string{}
	k.change(r, "sid", "type")
	k.World.HA.Resources[sid] = r
	k.World.HA.Wake()
	return nil, nil
}

func changeHAResource(k *call) (any, error) {
	sid, err := k.sid()
	if err != nil {
		return nil, err
	}
	if err := k.checkGroup(); err != nil {
		return nil, err
	}
	if s := k.World.HA.Services[sid]; s != nil && s.State == "error" && k.In["state"] != "disabled" {
		return nil, failure.New("service '%s' in error state, must be disabled and fixed first", sid)
	}
	if err := k.lockHA("update resource failed"); err != nil {
		return nil, err
	}
	if err := k.unchanged(k.World.HA.Resources); err != nil {
		return nil, failure.New("update resource failed: %s", failure.From(err).Reason)
	}
	if k.World.HA.Resources[sid] == nil {
		return nil, failure.New("update resource failed: no such resource '%s'", sid)
	}
	k.change(k.World.HA.Resources[sid], "sid")
	return nil, nil
}

func removeHAResource(k *call) (any, error) {
	sid, err := k.sid()
	if err != nil {
		return nil, err
	}
	if k.World.HA.Resources[sid] == nil {
		return nil, failure.New("cannot delete service '%s', not HA managed!", sid)
	}
	if err := k.lockHA("delete resource failed"); err != nil {
		return nil, err
	}
	delete(k.World.HA.Resources, sid)
	if k.In.Or("purge", "1") == "1" {
		managerOf(k.World).purgeRules(sid)
	}
	return nil, nil
}

// purgeRules takes a service out of all rules, and removes those that are about nothing then.
func (a manager) purgeRules(sid string) {
	for name, r := range a.Rules {
		left := slices.DeleteFunc(params.SplitList(r["resources"]), func(s string) bool { return s == sid })
		if len(left) == 0 {
			delete(a.Rules, name)
			continue
		}
		r["resources"] = strings.Join(left, ",")
	}
}

func moveHAResource(k *call) (any, error) {
	sid, err := k.sid()
	if err != nil {
		return nil, err
	}
	m := k.World.HA.VMOf(sid)
	if k.World.HA.Resources[sid] == nil || m == nil {
		return nil, failure.New("resource '%s' is not HA managed", sid)
	}
	if k.World.Node(k.In["node"]) == nil {
		return nil, failure.New("no such cluster node '%s'", k.In["node"])
	}
	if err := k.lockHA("queuing the command failed"); err != nil {
		return nil, err
	}
	k.World.HA.Request(m.ID, world.Wish{Target: k.In["node"]})
	return map[string]any{"sid": sid, "requested-node": k.In["node"]}, nil
}

func getHAGroups(k *call) (any, error) {
	if err := k.groupsGone("cannot index groups"); err != nil {
		return nil, err
	}
	all := []any{}
	for _, name := range world.Sorted(k.World.HA.Groups) {
		all = append(all, managerOf(k.World).group(name))
	}
	return all, nil
}

func (a manager) group(name string) map[string]any {
	out := haEntry(a.Groups, haGroupSchema, "group", name)
	out["type"] = "group"
	return out
}

func getHAGroup(k *call) (any, error) {
	if err := k.groupsGone("cannot read group"); err != nil {
		return nil, err
	}
	if k.World.HA.Groups[k.In["group"]] == nil {
		return nil, failure.New("no such ha group '%s'", k.In["group"])
	}
	return managerOf(k.World).group(k.In["group"]), nil
}

func addHAGroup(k *call) (any, error) {
	if err := k.groupsGone("cannot create group"); err != nil {
		return nil, err
	}
	if err := k.World.NeedQuorum(k.Node); err != nil {
		return nil, err
	}
	if err := k.lockHA("create ha group failed"); err != nil {
		return nil, err
	}
	if k.World.HA.Groups[k.In["group"]] != nil {
		return nil, failure.New("create ha group failed: ha group ID '%s' already defined", k.In["group"])
	}
	g := map[string]string{}
	k.change(g, "group", "type")
	k.World.HA.Groups[k.In["group"]] = g
	return nil, nil
}

func changeHAGroup(k *call) (any, error) {
	if err := k.groupsGone("cannot update group"); err != nil {
		return nil, err
	}
	if err := k.lockHA("update ha group failed"); err != nil {
		return nil, err
	}
	if err := k.unchanged(k.World.HA.Groups); err != nil {
		return nil, failure.New("update ha group failed: %s", failure.From(err).Reason)
	}
	g := k.World.HA.Groups[k.In["group"]]
	if g == nil {
		return nil, failure.New("update ha group failed: no such ha group '%s'", k.In["group"])
	}
	k.change(g, "group")
	return nil, nil
}

func removeHAGroup(k *call) (any, error) {
	if err := k.groupsGone("cannot delete group"); err != nil {
		return nil, err
	}
	if err := k.lockHA("delete ha group failed"); err != nil {
		return nil, err
	}
	for _, sid := range world.Sorted(k.World.HA.Resources) {
		if k.World.HA.Resources[sid]["group"] == k.In["group"] {
			return nil, failure.New("delete ha group failed: ha group is used by service '%s'", sid)
		}
	}
	delete(k.World.HA.Groups, k.In["group"])
	return nil, nil
}

func getHARules(k *call) (any, error) {
	all := []any{}
	for _, name := range world.Sorted(k.World.HA.Rules) {
		r := k.World.HA.Rules[name]
		if k.In.Has("type") && r["type"] != k.In["type"] || k.In.Has("resource") && !slices.Contains(params.SplitList(r["resources"]), k.In["resource"]) {
			continue
		}
		all = append(all, haEntry(k.World.HA.Rules, haRuleSchema, "rule", name))
	}
	return all, nil
}

func getHARule(k *call) (any, error) {
	if k.World.HA.Rules[k.In["rule"]] == nil {
		return nil, failure.New("no such ha rule '%s'", k.In["rule"])
	}
	return haEntry(k.World.HA.Rules, haRuleSchema, "rule", k.In["rule"]), nil
}

// checkRule wants a rule to be about resources that are managed and hosts that there are.
func (k *call) checkRule(what string) error {
	var strangers []string
	for _, sid := range k.In.List("resources") {
		if k.World.HA.Resources[sid] == nil {
			strangers = append(strangers, sid)
		}
	}
	if len(strangers) > 0 {
		slices.Sort(strangers)
		return failure.New("%s: cannot use unmanaged resource(s) %s.", what, strings.Join(strangers, ", "))
	}
	for _, node := range k.In.List("nodes") {
		name, _, _ := strings.Cut(node, ":")
		if k.World.Node(name) == nil {
			strangers = append(strangers, name)
		}
	}
	if len(strangers) > 0 {
		slices.Sort(strangers)
		return failure.New("%s: cannot use non-existant node(s) %s.", what, strings.Join(strangers, ", ")) //nolint:misspell // the server does
	}
	return nil
}

func addHARule(k *call) (any, error) {
	if err := k.World.NeedQuorum(k.Node); err != nil {
		return nil, err
	}
	switch {
	case k.In["type"] == "node-affinity" && !k.In.Has("nodes"):
		return nil, failure.OfParameter("nodes", "property is missing and it is not optional")
	case k.In["type"] == "resource-affinity" && !k.In.Has("affinity"):
		return nil, failure.OfParameter("affinity", "property is missing and it is not optional")
	}
	if err := k.lockHA("create ha rule failed"); err != nil {
		return nil, err
	}
	if k.World.HA.Rules[k.In["rule"]] != nil {
		return nil, failure.New("create ha rule failed: HA rule '%s' already defined", k.In["rule"])
	}
	if err := k.checkRule("create ha rule failed"); err != nil {
		return nil, err
	}
	k.World.HA.Ordinal++
	r := map[string]string{"order": strconv.Itoa(k.World.HA.Ordinal)}
	k.change(r, "rule")
	k.World.HA.Rules[k.In["rule"]] = r
	return nil, nil
}

func changeHARule(k *call) (any, error) {
	if err := k.lockHA("update HA rules failed"); err != nil {
		return nil, err
	}
	if err := k.unchanged(k.World.HA.Rules); err != nil {
		return nil, failure.New("update HA rules failed: %s", failure.From(err).Reason)
	}
	r := k.World.HA.Rules[k.In["rule"]]
	if r == nil {
		return nil, failure.New("update HA rules failed: HA rule '%s' does not exist", k.In["rule"])
	}
	if err := k.checkRule("update HA rules failed"); err != nil {
		return nil, err
	}
	k.change(r, "rule", "type")
	return nil, nil
}

// removeHARule removes a rule, and is content without one.
func removeHARule(k *call) (any, error) {
	if err := k.lockHA("delete ha rule failed"); err != nil {
		return nil, err
	}
	delete(k.World.HA.Rules, k.In["rule"])
	return nil, nil
}
