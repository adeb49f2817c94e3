package doctor

import (
	"slices"
	"strconv"
	"strings"

	"github.com/plimsoll/plimsoll/proxmox/pveapi"
	"github.com/plimsoll/plimsoll/proxmox/settings"
)

// CheckAccount reports what is wrong with the names, as Faults joined together.
func CheckAccount(a pveapi.Account) error {
	f := settings.NewFaults()
	f.Must(pveapi.ValidUser(a.User) && len(a.User) <= 64, "user", "be a user with realm, such as plimsoll@pve", a.User)
	f.Must(a.User != "root@pam", "user", "be one that has only the rights it is given", a.User)
	f.Must(pveapi.ValidTokenName(a.Token), "token", "be 2 or more of A-Z, a-z, 0-9, ., _ and -, a letter first", a.Token)
	return f.Err()
}

// Block is a block of commands for a shell of root on any host of the cluster.
type Block struct {
	Why      []string `json:"why"` // lines
	Commands []string `json:"commands"`
}

// Setup returns the commands that give a token the rights that are needed: no more of them, and
// nowhere else. They may be run again: what is there stays, and roles get the privileges they
// should have.
func Setup(s *settings.Site, needs []Need, who pveapi.Account) []Block {
	blocks := []Block{setupPools(s), setupAccount(s, who)}
	for _, g := range grants(needs) {
		blocks = append(blocks, g.block(who))
	}
	return blocks
}

func setupPools(s *settings.Site) Block {
	block := Block{Why: []string{"The resource pools that machines are put into: all rights on machines hang on them."}}
	var seen []string
	for _, p := range s.Pools {
		if !slices.Contains(seen, p.PVEPool) {
			seen = append(seen, p.PVEPool)
			block.Commands = append(block.Commands, setupPool(p.PVEPool))
		}
	}
	return block
}

func setupPool(name string) string {
	return unlessThere("/pools/"+name, "pveum pool add "+pveapi.Shell(name)+" --comment "+pveapi.Shell("Machines of Plimsoll"))
}

func setupAccount(s *settings.Site, who pveapi.Account) Block {
	return Block{
		Why: []string{
			"The user, and a token with rights of its own: it may do what both it and its user may.",
			"The token's value is shown this once. Write one line to " + s.TokenFile + ", and let no other user read it:",
			"  " + who.String() + "=VALUE",
		},
		Commands: []string{
			unlessThere("/access/users/"+who.User, "pveum user add "+pveapi.Shell(who.User)+" --comment Plimsoll"),
			unlessThere("/access/users/"+who.User+"/token/"+who.Token,
				"pveum user token add "+pveapi.Shell(who.User)+" "+pveapi.Shell(who.Token)+" --privsep 1 --comment "+pveapi.Shell("Plimsoll "+s.Owner)),
		},
	}
}

// unlessThere runs a command if there is nothing at a path of the API.
func unlessThere(path, command string) string {
	return "pvesh get " + pveapi.Shell(path) + " >/dev/null 2>&1 || " + command
}

// grant is a role, and where it is given.
type grant struct {
	role       string
	privileges []string
	paths      []Need // one a path, with everything that it is for
}

// grants puts needs together by role and path, in the order in which they first come.
func grants(needs []Need) []grant {
	var all []grant
	for _, n := range needs {
		i := slices.IndexFunc(all, func(g grant) bool { return g.role == n.Role })
		if i < 0 {
			i, all = len(all), append(all, grant{role: n.Role})
		}
		g := &all[i]
		g.privileges = union(g.privileges, n.Privileges)
		at := slices.IndexFunc(g.paths, func(o Need) bool { return o.Path == n.Path })
		if at < 0 {
			g.paths = append(g.paths, n)
		} else {
			g.paths[at].Below = g.paths[at].Below || n.Below
		}
	}
	return all
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// reasons are what the roles are for.
var reasons = map[string]string{
	pveapi.RoleAudit:     "Reading how the cluster and its hosts are: whether there is quorum, and room. On / without what is below it.",
	pveapi.RoleMachines:  "Cloning, configuring, starting, stopping and deleting machines, in these pools.",
	pveapi.RoleDisks:     "Growing machines' disks, and settings about disks.",
	pveapi.RoleFirstBoot: "Inserting first-boot discs into machines, in place of the template's cloud-init drive where there is one.",
	pveapi.RoleAgent:     "Asking guest agents for their guests' addresses.",
	pveapi.RoleTemplates: "Cloning the templates.",
	pveapi.RoleStorage:   "Making disks on the storages, where there is room.",
	pveapi.RoleISO:       "Uploading first-boot discs, and removing them: Proxmox VE asks for Datastore.Allocate to remove any disc, so give them a storage of their own.",
	pveapi.RoleNetwork:   "Attaching machines to the networks. A template on another network asks for the right there, too: plimsoll doctor names the line.",
	pveapi.RoleDevices:   "Using hosts' devices that are mapped for virtual machines.",
}

func (g grant) block(who pveapi.Account) Block {
	block := Block{Why: []string{reasons[g.role]}, Commands: []string{g.makeRole()}}
	for _, n := range g.paths {
		block.Commands = append(block.Commands, g.give(n, who))
	}
	return block
}

// makeRole makes the role, or brings it to what it should be.
func (g grant) makeRole() string {
	role := g.role + " --privs " + pveapi.Shell(strings.Join(g.privileges, ","))
	return "pveum role add " + role + " 2>/dev/null || pveum role modify " + role
}

// give grants the role on a path to both: what the token may do, its user must be allowed too.
func (g grant) give(n Need, who pveapi.Account) string {
	propagate := 0
	if n.Below {
		propagate = 1
	}
	return "pveum acl modify " + pveapi.Shell(n.Path) + " --users " + pveapi.Shell(who.User) + " --tokens " + pveapi.Shell(who.String()) +
		" --roles " + g.role + " --propagate " + strconv.Itoa(propagate)
}

// Tailored returns the roles that meet the needs and where they are given, under names of the
// installation's own: what no other installation uses can be removed again.
func Tailored(needs []Need, suffix string) (roles map[string][]string, where []Need) {
	roles = map[string][]string{}
	for _, g := range grants(needs) {
		name := g.role + "-" + suffix
		roles[name] = g.privileges
		for _, n := range g.paths {
			n.Role, n.Privileges = name, g.privileges
			where = append(where, n)
		}
	}
	return roles, where
}
