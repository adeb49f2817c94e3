package doctor

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// rightsExam looks whether the token may do what it must.
type rightsExam struct {
	*examination
	needs, missing []Need
}

// examineRights compares what the token may do with what the configuration asks for.
func (e *rightsExam) examineRights() {
	e.readTemplates()
	have, err := e.client.Access().Permissions(e.ctx)
	if err == nil {
		e.zones = e.knownZones(have)
		e.needs = slices.DeleteFunc(Needs(e.site, e.release, e.parts(), e.zones), e.isAbsent)
		err = e.handedDown(have)
	}
	if err != nil {
		e.failed("rights.permissions", e.who.String(), err)
		return
	}
	e.have = have
	e.missing = Missing(e.needs, have)
	e.examinePaths()
	for _, id := range slices.Sorted(maps.Keys(e.templates)) {
		if t := e.templates[id]; t.err != nil {
			e.skip("rights.template", strconv.Itoa(id), "not looked at: which storages and networks template %d is on is not known, nor whether the token may use them", id)
		}
	}
	e.examineMonitor()
	e.examineExcess()
	e.examineTags()
}

// isAbsent reports whether a need is about a template that is not there, which the templates' check
// reports.
func (v *inventory) isAbsent(n Need) bool {
	for id, t := range v.templates {
		if t.absent && n.Path == fmt.Sprintf("/vms/%d", id) {
			return true
		}
	}
	return false
}

// knownZones are the zones of the VNets whose settings the token may see or that it has rights on.
// Those that it may not see are no reason to stop: most networks are no VNets.
func (e *rightsExam) knownZones(have pveapi.Permissions) pveapi.Zones {
	zones := have.Zones()
	seen, err := e.client.Zones(e.ctx)
	if err != nil && !pveapi.Is(err, pveapi.Unsupported) { // as without the package for it
		e.skip("rights.zones", "", "not looked at: which networks are VNets could not be read: %v", err)
	}
	maps.Copy(zones, seen)
	return zones
}

// handedDown asks again for what seems to be handed down to the paths that are needed: the server
// does not list paths where nothing is allowed, even below one where much is.
func (e *rightsExam) handedDown(have pveapi.Permissions) (err error) {
	for _, n := range e.needs {
		paths := []string{n.Path}
		if n.Path == "/nodes" {
			for _, h := range e.all {
				paths = append(paths, n.Path+"/"+h)
			}
		}
		for _, path := range paths {
			handed := slices.ContainsFunc(n.Privileges, func(p string) bool { return have.Has(path, p) })
			if _, listed := have[path]; listed || !handed {
				continue
			}
			if have[path], err = e.client.Access().PermissionsOn(e.ctx, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// examinePaths reports for each path what the token lacks, and the lines that grant it.
func (e *rightsExam) examinePaths() {
	var paths []string
	for _, n := range slices.Concat(e.needs, e.missing) {
		if !slices.Contains(paths, n.Path) {
			paths = append(paths, n.Path)
		}
	}
	on := func(path string, some []Need) []Need {
		return slices.DeleteFunc(slices.Clone(some), func(n Need) bool { return n.Path != path })
	}
	for _, path := range paths {
		lacking := on(path, e.missing)
		if len(lacking) == 0 {
			var held []string
			for _, n := range on(path, e.needs) {
				held = union(held, n.Privileges)
			}
			e.ok("rights.path", path, "%s: %s", path, strings.Join(held, ", "))
			continue
		}
		var said []string
		for _, n := range lacking {
			said = append(said, fmt.Sprintf("%s to %s%s", inWords(n.Privileges), n.Why, n.asker()))
		}
		e.add(Fail, "rights.path", path, append(e.grant(lacking), e.zoneHint(path)...), "%s: the token lacks %s", path, strings.Join(said, "; "))
	}
}

// inWords lists words as in a sentence.
func inWords(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " and " + words[last]
}

// asker names the key that asks for it.
func (n *Need) asker() string {
	if n.Key == "" {
		return ""
	}
	return " (" + n.Key + ")"
}

// grant are the commands that give the roles that something lacks of, whole. A resource pool that
// cannot be seen may have been removed, and the rights on it with it.
func (e *rightsExam) grant(lacking []Need) []string {
	var commands []string
	unseen := slices.ContainsFunc(lacking, func(n Need) bool { return slices.Contains(n.Privileges, "Pool.Audit") })
	if name, is := strings.CutPrefix(lacking[0].Path, "/pool/"); is && unseen {
		commands = append(commands, setupPool(name))
	}
	for _, g := range grants(e.needs) {
		for _, n := range lacking {
			if n.Role != g.role {
				continue
			}
			if !slices.Contains(commands, g.makeRole()) {
				commands = append(commands, g.makeRole())
			}
			if give := g.give(n, e.who); !slices.Contains(commands, give) {
				commands = append(commands, give)
			}
		}
	}
	return commands
}

// examineMonitor looks for what the upgrade to Proxmox VE 9 does to roles: VM.Monitor is dropped
// from them without a word, and what it allowed takes VM.GuestAgent.Audit since.
func (e *rightsExam) examineMonitor() {
	asks := func(n Need) bool { return n.Role == pveapi.RoleAgent }
	if e.release < Release9 || !slices.ContainsFunc(e.needs, asks) {
		return
	}
	roles, err := e.client.Access().Roles(e.ctx)
	if err != nil {
		e.failed("rights.monitor", "", err)
		return
	}
	lacks := slices.ContainsFunc(e.missing, asks)
	found := false
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		if name == "Administrator" || strings.HasPrefix(name, "PVE") {
			continue // they are the release's own
		}
		names := slices.Contains(roles[name], "VM.Monitor")
		emptied := name == pveapi.RoleAgent && !slices.Contains(roles[name], e.release.agentPrivilege())
		if !names && !emptied {
			continue
		}
		found = true
		status, fix := Warn, "pveum role modify "+pveapi.Shell(name)+" --append 1 --privs "+e.release.agentPrivilege()
		if lacks {
			status = Fail
		}
		if name == pveapi.RoleAgent {
			fix = "pveum role modify " + name + " --privs " + e.release.agentPrivilege()
		}
		e.add(status, "rights.monitor", name, []string{fix},
			"role %s was made for Proxmox VE 8: VM.Monitor, by which it let guest agents be asked, is no privilege since 9", name)
	}
	if !found && !lacks {
		e.ok("rights.monitor", "", "no role names VM.Monitor, which is no privilege since Proxmox VE 9")
	}
}

// examineExcess says if the token may do things everywhere.
func (e *rightsExam) examineExcess() {
	var excess []string
	for privilege, below := range e.have["/"] {
		if privilege != "Sys.Audit" || below {
			excess = append(excess, privilege)
		}
	}
	slices.Sort(excess)
	if len(excess) == 0 {
		e.ok("rights.excess", e.who.String(), "the token may do nothing everywhere")
		return
	}
	e.add(Warn, "rights.excess", e.who.String(), []string{"pveum acl list", "plimsoll pve setup prints the rights that suffice"},
		"on / and all below it the token holds what it does not need there: %s", strings.Join(excess, ", "))
}

// examineTags looks whether the datacenter's options let the token set the tags that machines get.
func (e *rightsExam) examineTags() {
	rules, err := e.client.TagRules(e.ctx)
	if err != nil {
		e.failed("rights.tags", "", err)
		return
	}
	allowed := rules.Allowed
	if rules.Mode != "list" {
		allowed = append(allowed, rules.Listed...)
	}
	var refused []string
	for _, tag := range e.tags() {
		if slices.Contains(rules.Reserved, tag) || rules.Mode != "" && rules.Mode != "free" && !slices.Contains(allowed, tag) {
			refused = append(refused, tag)
		}
	}
	if len(refused) == 0 {
		e.ok("rights.tags", "", "machines may be tagged")
		return
	}
	e.add(Fail, "rights.tags", strings.Join(refused, " "), []string{
		"pvesh set /cluster/options --user-tag-access " + pveapi.Shell("user-allow=list,user-allow-list="+strings.Join(union(allowed, e.tags()), ";")),
	}, "the datacenter's options refuse the tags %s, without which machines are not known to be ours", strings.Join(refused, ", "))
}

// tags are all that machines get.
func (e *rightsExam) tags() []string {
	all := []string{settings.OwnerTag(e.site.Owner)}
	for _, p := range e.site.Pools {
		all = union(all, p.Tags)
	}
	return all
}

// templateFound is a template as it is.
type templateFound struct {
	vmid   int
	host   string
	config pveapi.VMConfig
	err    error // why the rest is not known
	absent bool  // surely
}

// known reports whether the template could be read.
func (t *templateFound) known() bool { return t != nil && t.err == nil && !t.absent }

// asRead is the template's configuration, and an empty one where it could not be read.
func (t *templateFound) asRead() pveapi.VMConfig {
	if !t.known() {
		return pveapi.VMConfig{}
	}
	return t.config
}

// readTemplates reads the templates that the pools name.
func (v *inventory) readTemplates() {
	v.look()
	v.templates = map[int]*templateFound{}
	for i := range v.site.Pools {
		for _, id := range v.site.Pools[i].Template.IDs() {
			if v.templates[id] == nil {
				v.templates[id] = v.readTemplate(id)
			}
		}
	}
}

func (v *inventory) readTemplate(id int) *templateFound {
	t := &templateFound{vmid: id}
	for _, r := range v.resources {
		if r.VMID == id {
			t.host = r.Node
		}
	}
	if t.host != "" {
		t.config, t.err = v.client.VM(t.host, id).Config(v.ctx)
		return t
	}
	t.absent, t.err = v.client.VMIDFree(v.ctx, id)
	if t.err == nil && !t.absent {
		t.err = &pveapi.Error{Method: http.MethodGet, Path: "/cluster/resources", Status: http.StatusForbidden, ACLPath: fmt.Sprintf("/vms/%d", id), Privilege: "VM.Audit"}
	}
	return t
}

// parts are what is known of the templates.
func (v *inventory) parts() map[int]pveapi.Parts {
	all := map[int]pveapi.Parts{}
	for id, t := range v.templates {
		if t.err == nil && !t.absent {
			all[id] = t.config.Parts()
		}
	}
	return all
}
