package pvesim

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/faults"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

// grants gives roles away: each line is a path, a role and its receiver, and "stays" if it does not
// hold below.
func grants(t testing.TB, c *Cluster, lines ...string) {
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) < 3 {
			t.Fatalf("no grant: %s", line)
		}
		c.Access.Grant(f[0], f[1], f[2], len(f) < 4)
	}
}

// staff is a cluster with a user, a token without and one with privilege separation, a group and
// pools.
func staff(t testing.TB) *Cluster {
	c := newCluster(t, nil)
	c.Token("auto@pve", "full", false)
	c.Token("auto@pve", "sep", true)
	c.Token("root@pam", "sep", true)
	c.Access.Groups["ops"] = &access.Group{}
	c.Access.Users["auto@pve"].Groups["ops"] = true
	c.Access.Pools["workers"].Vms[101] = true
	c.Access.Pools["workers"].Storages["shared"] = true
	return c
}

func TestPrivilegesFollowFromWhatWasGranted(t *testing.T) {
	user, full, sep := &access.Identity{User: "auto@pve"}, &access.Identity{User: "auto@pve", Token: "full"}, &access.Identity{User: "auto@pve", Token: "sep"}
	for name, test := range map[string]struct {
		grants []string
		who    *access.Identity
		path   string
		want   bool // VM.Audit
	}{
		"nothing":                                   {nil, user, "/vms/100", false},
		"on the path":                               {[]string{"/vms/100 PVEAuditor auto@pve"}, user, "/vms/100", true},
		"on another":                                {[]string{"/vms/101 PVEAuditor auto@pve"}, user, "/vms/100", false},
		"above":                                     {[]string{"/vms PVEAuditor auto@pve"}, user, "/vms/100", true},
		"at the root":                               {[]string{"/ PVEAuditor auto@pve"}, user, "/vms/100", true},
		"above, and not below":                      {[]string{"/vms PVEAuditor auto@pve stays"}, user, "/vms/100", false},
		"on the path, and not below":                {[]string{"/vms PVEAuditor auto@pve stays"}, user, "/vms", true},
		"replaced on the way":                       {[]string{"/ PVEAuditor auto@pve", "/vms PVEPoolUser auto@pve"}, user, "/vms/100", false},
		"replaced only where it stands":             {[]string{"/ PVEAuditor auto@pve", "/vms PVEPoolUser auto@pve stays"}, user, "/vms/100", true},
		"taken by NoAccess":                         {[]string{"/ PVEAuditor auto@pve", "/vms NoAccess auto@pve"}, user, "/vms/100", false},
		"NoAccess with another":                     {[]string{"/vms NoAccess auto@pve", "/vms PVEAuditor auto@pve"}, user, "/vms/100", false},
		"given back below NoAccess":                 {[]string{"/ NoAccess auto@pve", "/vms PVEAuditor auto@pve"}, user, "/vms/100", true},
		"to a group":                                {[]string{"/vms PVEAuditor @ops"}, user, "/vms/100", true},
		"the user before the group":                 {[]string{"/vms PVEAuditor @ops", "/vms PVEPoolUser auto@pve"}, user, "/vms/100", false},
		"on the pool":                               {[]string{"/pool/workers PVEAuditor auto@pve"}, user, "/vms/101", true},
		"on the pool, for its storage":              {[]string{"/pool/workers PVEAuditor auto@pve"}, user, "/storage/shared", true},
		"on the pool, of another":                   {[]string{"/pool/workers PVEAuditor auto@pve"}, user, "/vms/100", false},
		"above the pool":                            {[]string{"/pool PVEAuditor auto@pve"}, user, "/vms/101", true},
		"on the pool, and another on the path":      {[]string{"/pool/workers PVEAuditor auto@pve", "/vms/101 PVEPoolUser auto@pve"}, user, "/vms/101", true},
		"on the pool, and NoAccess on the path":     {[]string{"/pool/workers PVEAuditor auto@pve", "/vms NoAccess auto@pve"}, user, "/vms/101", false},
		"NoAccess on the pool":                      {[]string{"/vms PVEAuditor auto@pve", "/pool/workers NoAccess auto@pve"}, user, "/vms/101", false},
		"a full token has what its user has":        {[]string{"/vms PVEAuditor auto@pve"}, full, "/vms/100", true},
		"a full token has nothing of its own":       {[]string{"/vms PVEAuditor auto@pve!full"}, full, "/vms/100", false},
		"a separate token has nothing of its user":  {[]string{"/vms PVEAuditor auto@pve"}, sep, "/vms/100", false},
		"a separate token has nothing without it":   {[]string{"/vms PVEAuditor auto@pve!sep"}, sep, "/vms/100", false},
		"a separate token has what both have":       {[]string{"/vms PVEAuditor auto@pve!sep", "/ PVEVMAdmin auto@pve"}, sep, "/vms/100", true},
		"a separate token has it where both have":   {[]string{"/vms/100 PVEAuditor auto@pve!sep", "/vms/101 PVEVMAdmin auto@pve"}, sep, "/vms/100", false},
		"a separate token has what its groups have": {[]string{"/vms PVEAuditor auto@pve!sep", "/vms PVEVMAdmin @ops"}, sep, "/vms/100", true},
		"a separate token of root has its own":      {[]string{"/vms PVEAuditor root@pam!sep"}, &access.Identity{User: "root@pam", Token: "sep"}, "/vms/100", true},
		"a separate token of root has no more":      {nil, &access.Identity{User: "root@pam", Token: "sep"}, "/vms/100", false},
		"root has all":                              {nil, &access.Identity{User: "root@pam"}, "/vms/100", true},
		"a token that is not there":                 {[]string{"/ PVEAuditor auto@pve"}, &access.Identity{User: "auto@pve", Token: "gone"}, "/", false},
	} {
		c := staff(t)
		grants(t, c, test.grants...)
		if got := c.Access.May(test.who, test.path, "VM.Audit"); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestRulesSayWhatIsMissing(t *testing.T) {
	clone := api.And(api.May("/vms/{vmid}", "VM.Clone"), api.Or(api.May("/vms/{newid}", "VM.Allocate"), api.May("/pool/{pool}", "VM.Allocate").Given("pool")))
	for name, test := range map[string]struct {
		rule   api.Rule
		grants []string
		sent   string
		want   string // nothing is let in
	}{
		"one of all":                {api.May("/vms/{vmid}", "VM.Audit", "VM.Clone"), []string{"/ PVEAuditor auto@pve"}, "vmid=100", "Permission check failed (/vms/100, VM.Clone)"},
		"all":                       {api.May("/vms/{vmid}", "VM.Audit", "VM.Clone"), []string{"/ PVETemplateUser auto@pve"}, "vmid=100", ""},
		"one of some":               {api.MayAny("/vms/{vmid}", "VM.Audit", "VM.Clone"), []string{"/ PVEAuditor auto@pve"}, "vmid=100", ""},
		"none of some":              {api.MayAny("/vms/{vmid}", "VM.Audit", "VM.Clone"), nil, "vmid=100", "Permission check failed (/vms/100, VM.Audit|VM.Clone)"},
		"what is not given is none": {api.May("/vms/{newid}", "VM.Audit"), nil, "vmid=100", "Permission check failed (/vms, VM.Audit)"},
		"no path":                   {api.May("/pool/{poolid}", "Pool.Allocate"), []string{"/ Administrator auto@pve"}, "poolid=a+b", "Permission check failed (, Pool.Allocate)"},
		"or":                        {clone, []string{"/vms/100 PVETemplateUser auto@pve"}, "vmid=100&newid=200", "Permission check failed"},
		"or, the other":             {clone, []string{"/vms/100 PVETemplateUser auto@pve", "/pool/workers PVEVMAdmin auto@pve"}, "vmid=100&newid=200&pool=workers", ""},
		"or, the other not asked":   {clone, []string{"/vms/100 PVETemplateUser auto@pve", "/pool/workers PVEVMAdmin auto@pve"}, "vmid=100&newid=200", "Permission check failed"},
		"and":                       {clone, []string{"/pool/workers PVEVMAdmin auto@pve"}, "vmid=100&newid=200&pool=workers", "Permission check failed (/vms/100, VM.Clone)"},
		"self":                      {api.Or(api.Self, api.OverUser("User.Modify")), nil, "userid=auto@pve", ""},
		"another":                   {api.Or(api.Self, api.OverUser("User.Modify")), nil, "userid=root@pam", "Permission check failed"},
		"another, over all":         {api.Or(api.Self, api.OverUser("User.Modify")), []string{"/access/groups PVEUserAdmin auto@pve"}, "userid=root@pam", ""},
		"another, over its group":   {api.Or(api.Self, api.OverUser("User.Modify")), []string{"/access/groups/ops PVEUserAdmin auto@pve"}, "userid=other@pve", ""},
		"nobody":                    {api.OverUser("User.Modify"), nil, "userid=no@pve", "no such user ('no@pve')"},
		"nobody, or":                {api.Or(api.Self, api.OverUser("User.Modify")), nil, "userid=no@pve", "Permission check failed"},
		"realm":                     {api.OfRealm, []string{"/access/realm/pve PVEUserAdmin auto@pve"}, "userid=no@pve", ""},
		"other realm":               {api.OfRealm, []string{"/access/realm/pve PVEUserAdmin auto@pve"}, "userid=no@pam", "Permission check failed (/access/realm/pam, Realm.AllocateUser)"},
		"give away":                 {api.Modify, []string{"/vms PVEVMAdmin auto@pve"}, "path=/vms/100", ""},
		"give away, more":           {api.Modify, []string{"/vms PVEVMAdmin auto@pve"}, "path=/", "Permission check failed (/, Permissions.Modify)"},
		"give away, a storage":      {api.Modify, nil, "path=/storage/x", "Permission check failed (/storage/x, Permissions.Modify|Datastore.Allocate)"},
	} {
		c := staff(t)
		c.Access.Users["other@pve"] = access.NewUser("other@pve")
		c.Access.Users["other@pve"].Groups["ops"] = true
		grants(t, c, test.grants...)
		k := &api.Call{Caller: world.Caller{World: c.World, Who: &access.Identity{User: "auto@pve"}}}
		got := ""
		if err := k.Permit(test.rule, decodeForm(test.sent)); err != nil {
			got = failure.From(err).Reason
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// A token with privilege separation never has more than its user, for any grants.
func TestSeparateTokensHaveNoMoreThanTheirUsers(t *testing.T) {
	c := staff(t)
	paths := []string{"/", "/vms", "/vms/100", "/vms/101", "/storage", "/storage/shared", "/pool", "/pool/workers", "/nodes/pve1"}
	roles := []string{access.NoAccess, "PVEAuditor", "PVEVMAdmin", "PVEVMUser", "Administrator", "PVEDatastoreUser"}
	rapid.Check(t, func(t *rapid.T) {
		c.Access.ACL = map[string]map[string]map[string]bool{}
		for range rapid.IntRange(0, 8).Draw(t, "grants") {
			c.Access.Grant(rapid.SampledFrom(paths).Draw(t, "path"), rapid.SampledFrom(roles).Draw(t, "role"),
				rapid.SampledFrom([]string{"auto@pve", "auto@pve!sep", "@ops"}).Draw(t, "who"), rapid.Bool().Draw(t, "below"))
		}
		for _, path := range paths {
			user, token := c.Access.Held(&access.Identity{User: "auto@pve"}, path), c.Access.Held(&access.Identity{User: "auto@pve", Token: "sep"}, path)
			if token.All&^user.All != 0 || token.Below&^user.Below != 0 || token.Below&^token.All != 0 {
				t.Fatalf("on %s: token %v, user %v", path, token.All.Names(), user.All.Names())
			}
		}
	})
}

// with sends a request with further headers, and returns the status line, the body, and how long it
// took.
func with(t testing.TB, c *Cluster, method, path, form string, headers ...string) (string, string, time.Duration) {
	req, err := http.NewRequest(method, "https://pve1:8006/api2/json"+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	before := c.Now()
	resp, err := c.Transport().RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Status, string(body), c.Now().Sub(before)
}

// login returns a ticket and a token against forged requests.
func logIn(t testing.TB, c *Cluster, name, password string) (ticket, csrf string) {
	_, body, _ := with(t, c, "POST", "/access/ticket", url.Values{"username": {name}, "password": {password}}.Encode())
	data, err := decodeJSON([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, _ := data["data"].(map[string]any)
	ticket, _ = answer["ticket"].(string)
	csrf, _ = answer["CSRFPreventionToken"].(string)
	return ticket, csrf
}

func TestTicketsLetInForTwoHours(t *testing.T) {
	c := newCluster(t, nil)
	c.SetPassword("root@pam", "correct horse")
	ticket, csrf := logIn(t, c, "root@pam", "correct horse")
	if ticket == "" || csrf == "" {
		t.Fatal("no ticket")
	}
	for _, test := range []struct{ after, method, want, cookie, csrf string }{
		{"0s", "GET", "200 OK", ticket, ""},
		{"0s", "GET", "200 OK", url.QueryEscape(ticket), ""},
		{"0s", "GET", "401 Authentication failed!", ticket + "x", ""},
		{"0s", "GET", "401 Authentication failed!", strings.Replace(ticket, "root", "auto", 1), ""},
		{"0s", "DELETE", "401 Permission denied - invalid csrf token", ticket, ""},
		{"0s", "DELETE", "401 Permission denied - invalid csrf token", ticket, "00000000:xyz"},
		{"0s", "DELETE", "400 Parameter verification failed.", ticket, csrf},
		{"1h59m", "GET", "200 OK", ticket, ""},
		{"2m", "GET", "401 Authentication failed!", ticket, ""},
	} {
		after, err := time.ParseDuration(test.after)
		if err != nil {
			t.Fatal(err)
		}
		c.Advance(after)
		got, _, took := with(t, c, test.method, "/pools", "", "Cookie", "PVEAuthCookie="+test.cookie, "CSRFPreventionToken", test.csrf)
		if got != test.want {
			t.Errorf("%s after %s: %s, want %s", test.method, test.after, got, test.want)
		}
		if refused := strings.HasPrefix(got, "401"); refused != (took == world.WaitUnauthorized) {
			t.Errorf("%s took %s", got, took)
		}
	}
}

func TestLoginAsksForPasswordOrTicket(t *testing.T) {
	c := newCluster(t, nil)
	c.SetPassword("root@pam", "correct horse")
	c.SetPassword("auto@pve", "battery staple")
	ticket, _ := logIn(t, c, "root@pam", "correct horse")
	for _, test := range []struct{ form, want string }{
		{"username=root@pam&password=correct+horse", "200 OK"},
		{"username=root&realm=pam&password=correct+horse", "200 OK"},
		{"username=root@pam&password=wrong", "401 authentication failure"},
		{"username=root&password=correct+horse", "401 authentication failure"},
		{"username=nobody@pve&password=x", "401 authentication failure"},
		{"username=root@pam&password=" + url.QueryEscape(ticket), "200 OK"},
		{"username=auto@pve&password=" + url.QueryEscape(ticket), "200 OK"}, // root may be anybody
		{"username=auto@pve&password=battery+staple&path=/vms&privs=VM.Audit", "401 authentication failure"},
		{"username=root@pam&password=correct+horse&path=/vms&privs=VM.Audit", "200 OK"},
		{"username=root@pam&password=correct+horse&path=/vms", "400 Parameter verification failed."},
	} {
		got, _, took := with(t, c, "POST", "/access/ticket", test.form)
		if got != test.want || strings.HasPrefix(got, "401") != (took == world.WaitUnauthorized) {
			t.Errorf("%s: %s after %s, want %s", test.form, got, took, test.want)
		}
	}
}

func TestWhoCannotBeKnownIsToldWhyByOlderReleasesOnly(t *testing.T) {
	for release, want := range map[string][]string{
		"9.2.11": {"No ticket", "Authentication failed!", "Authentication failed!", "Authentication failed!", "Authentication failed!", "Authentication failed!", "Authentication failed!"},
		"8.4.5": {"No ticket", "invalid token value!", "no such token 'zz' for user 'root@pam'", "no such user ('no@pve')", "no tokenid specified",
			"token 'old' access expired", "permission denied - invalid PVE ticket"},
	} {
		c := newCluster(t, func(cfg *world.Config) { cfg.Release = release })
		c.Token("root@pam", "t1", false)
		old := c.Token("root@pam", "old", false)
		c.Expire(old)
		var got []string
		for _, header := range []string{"Bearer x", "PVEAPIToken=root@pam!t1=x", "PVEAPIToken=root@pam!zz=x", "PVEAPIToken=no@pve!t1=x",
			"PVEAPIToken=garbage", "PVEAPIToken=" + old, "PVEAuthCookie=x"} {
			status, body, _ := with(t, c, "GET", "/version", "", "Authorization", header)
			if !strings.HasPrefix(status, "401 ") || body != "" {
				t.Errorf("%s: %s %s", header, status, body)
			}
			got = append(got, strings.TrimPrefix(status, "401 "))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", release, diff)
		}
	}
}

func TestReleasesDifferInWhatTheySay(t *testing.T) {
	for release, want := range map[string][]string{
		"9.2.11": {`{"data":null,"message":"Method 'GET /nope' not implemented"}`, "400 Parameter verification failed.", "200 OK"},
		"8.4.5":  {`{"data":null,"message":"Method 'GET /nope' not implemented"}`, "200 OK", "400 Parameter verification failed."},
		"8.3.2":  {`{"data":null}`, "200 OK", "400 Parameter verification failed."},
	} {
		c := newCluster(t, func(cfg *world.Config) { cfg.Release = release })
		root := c.Token("root@pam", "t1", false)
		_, nope := ask(t, c, root, "GET", "/nope", "")
		monitor, _ := ask(t, c, root, "POST", "/access/roles", "roleid=Old&privs=VM.Monitor")
		agent, _ := ask(t, c, root, "POST", "/access/roles", "roleid=New&privs=VM.GuestAgent.Audit")
		if diff := cmp.Diff(want, []string{nope, monitor, agent}); diff != "" {
			t.Errorf("%s: %s", release, diff)
		}
	}
}

func TestDoorsChangeWhoMayWhat(t *testing.T) {
	c := newCluster(t, nil)
	token := c.Token("auto@pve", "t1", true)
	look := func(want string) {
		t.Helper()
		if got, _ := ask(t, c, token, "GET", "/nodes/pve1/status", ""); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	look("403 Permission check failed (/nodes/pve1, Sys.Audit)")
	c.AddRole("Look", "Sys.Audit")
	c.Grant("/", "Look", "auto@pve")
	look("403 Permission check failed (/nodes/pve1, Sys.Audit)")
	c.Grant("/nodes", "Look", "auto@pve!t1")
	look("200 OK")
	c.Revoke("/nodes", "Look", "auto@pve!t1")
	look("403 Permission check failed (/nodes/pve1, Sys.Audit)")
	c.Expire(token)
	look("401 Authentication failed!")
}

func TestPoolsAreChangedAsAWhole(t *testing.T) {
	c := newCluster(t, nil)
	root := c.Token("root@pam", "t1", false)
	auto := c.Token("auto@pve", "t1", false)
	c.Grant("/pool", "PVEPoolAdmin", "auto@pve")
	for _, test := range []struct{ token, method, path, form, want string }{
		{root, "PUT", "/pools/workers", "vms=100,101&storage=shared&comment=c", "200 OK"},
		{root, "PUT", "/pools/workers", "vms=102,100", "500 update pools failed: VM 100 is already a pool member"},
		{root, "PUT", "/pools/workers", "vms=102&delete=1", "500 update pools failed: VM 102 is not a pool member"},
		{root, "PUT", "/pools/workers", "storage=shared", "500 update pools failed: Storage 'shared' is already a pool member"},
		{root, "POST", "/pools", "poolid=workers/sub", "200 OK"},
		{root, "POST", "/pools", "poolid=no/sub", "500 create pool failed: parent 'no' of pool 'no/sub' does not exist"},
		{root, "PUT", "/pools", "poolid=workers/sub&vms=100", "500 update pools failed: VM 100 belongs already to pool 'workers' and 'allow-move' is not set"},
		{root, "PUT", "/pools", "poolid=workers/sub&vms=100&allow-move=1", "200 OK"},
		{root, "PUT", "/pools/workers", "poolid=other", "400 Parameter verification failed."},
		{auto, "PUT", "/pools/workers", "vms=103", "500 update pools failed: 403 Permission check failed (/vms/103, Permissions.Modify|VM.Allocate)"},
		{root, "DELETE", "/pools/workers", "", "500 delete pool failed: pool 'workers' is not empty (contains pool 'workers/sub')"},
		{root, "DELETE", "/pools?poolid=workers/sub", "", "200 OK"}, // 100 is not there
		{root, "DELETE", "/pools/workers", "", "500 delete pool failed: pool 'workers' is not empty (contains storage 'shared')"},
	} {
		if got, _ := ask(t, c, test.token, test.method, test.path, test.form); got != test.want {
			t.Errorf("%s %s %s: %s, want %s", test.method, test.path, test.form, got, test.want)
		}
	}
	if p := c.Access.Pools["workers"]; p.Vms[102] || !p.Vms[101] || p.Comment != "c" {
		t.Errorf("pool is %+v", p)
	}
}

func TestWritingWhoThereIsNeedsQuorum(t *testing.T) {
	c := newCluster(t, nil)
	root := c.Token("root@pam", "t1", false)
	faults, err := faults.Parse("no quorum")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Inject(faults[0]); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/pools?poolid=x":                  "500 create pool failed: cfs-lock 'file-user_cfg' error: no quorum!",
		"/access/roles?roleid=x":           "500 create role failed: cfs-lock 'file-user_cfg' error: no quorum!",
		"/access/users/root@pam/token/new": "500 generating token failed: cfs-lock 'file-user_cfg' error: no quorum!",
	} {
		status, _, took := with(t, c, "POST", path, "", "Authorization", "PVEAPIToken="+root)
		if status != want || took != world.WaitQuorum {
			t.Errorf("%s: %s after %s, want %s", path, status, took, want)
		}
	}
}

func TestUploadsAreRefusedBeforeTheyAreRead(t *testing.T) {
	c := newCluster(t, nil)
	token := "PVEAPIToken=" + c.Token("auto@pve", "t1", false)
	got, body, took := with(t, c, "POST", "/nodes/pve1/storage/shared/upload", "x", "Authorization", token, "Content-Type", "multipart/form-data; boundary=b")
	if want := "403 Permission check failed (/storage/shared, Datastore.AllocateTemplate)"; got != want || body != "" || took != world.WaitUnauthorized {
		t.Errorf("%s %s after %s, want %s", got, body, took, want)
	}
}

// Two clusters of the same seed give the same secrets, and two of different seeds different ones.
func TestSecretsFollowFromTheSeed(t *testing.T) {
	secret := func(seed uint64) string {
		return newCluster(t, func(cfg *world.Config) { cfg.Seed = seed }).Token("auto@pve", "t1", true)
	}
	if a, b, other := secret(1), secret(1), secret(2); a != b || a == other {
		t.Error(fmt.Sprint(a, b, other))
	}
}
