package pvesim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/api"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/failure"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/params"
	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/world"
)

var clusterEndpoints = []api.Endpoint{
	{Method: "GET", Path: "/cluster/status", May: api.May("/", "Sys.Audit"), Protected: true, Do: getClusterStatus},
	{Method: "GET", Path: "/cluster/resources", May: api.Anybody, Do: getResources, In: `type?:enum(vm,storage,node,sdn)`},
	{Method: "GET", Path: "/cluster/options", May: api.Anybody, Do: getOptions},
	{Method: "PUT", Path: "/cluster/options", May: api.May("/", "Sys.Modify"), Protected: true, Do: setOptions, In: optionsNotation},
	{Method: "GET", Path: "/cluster/log", May: api.Anybody, Do: getLog, In: `max?:int[1..]`},
	{Method: "GET", Path: "/cluster/config", May: api.May("/", "Sys.Audit"), Do: api.Index("name", "nodes totem join qdevice apiversion")},
	{Method: "GET", Path: "/cluster/config/nodes", May: api.May("/", "Sys.Audit"), Do: getConfigNodes},
	{Method: "GET", Path: "/cluster/config/join", May: api.May("/", "Sys.Audit"), Do: getJoinInfo, In: `node?:node`},
	{Method: "GET", Path: "/cluster/mapping", May: api.Anybody, Do: api.Index("name", "dir pci usb")},
	{Method: "GET", Path: "/cluster/mapping/dir", May: api.Anybody, Do: emptyList, In: `check-node?:node`},
	{Method: "GET", Path: "/cluster/mapping/pci", May: api.Anybody, Do: emptyList, In: `check-node?:node`},
	{Method: "GET", Path: "/cluster/mapping/usb", May: api.Anybody, Do: emptyList, In: `check-node?:node`},
}

// emptyList is of what clusters may have and no emulated one has.
func emptyList(*api.Call) (any, error) { return []any{}, nil }

// getClusterStatus lists the hosts that the asked host takes for being there.
func getClusterStatus(k *api.Call) (any, error) {
	var all []any
	if len(k.World.Nodes) > 1 {
		all = append(all, map[string]any{
			"type": "cluster", "id": "cluster", "name": nameOf(k.World), "nodes": len(k.World.Nodes), "quorate": world.Number(k.World.Quorate(k.Entry)),
			"version": len(k.World.Nodes),
		})
	}
	for _, h := range k.World.Nodes {
		e := map[string]any{
			"type": "node", "id": "node/" + h.Name, "name": h.Name, "nodeid": h.ID, "ip": h.IP, "local": world.Number(h == k.Entry),
			"online": world.Number(k.Entry.Online(h)), "level": "",
		}
		if len(k.World.Nodes) == 1 {
			e["nodeid"] = 0
		}
		all = append(all, e)
	}
	return all, nil
}

// nameOf is the cluster's.
func nameOf(c *world.World) string { return cmp.Or(c.Config.Name, "lab") }

func getConfigNodes(k *api.Call) (any, error) {
	all := []any{}
	if len(k.World.Nodes) == 1 {
		return all, nil
	}
	for _, h := range k.World.Nodes {
		all = append(all, map[string]any{
			"node": h.Name, "name": h.Name, "nodeid": strconv.Itoa(h.ID), "quorum_votes": "1", "ring0_addr": h.IP,
		})
	}
	return all, nil
}

// getJoinInfo shows what a further host would have to know to join the cluster.
func getJoinInfo(k *api.Call) (any, error) {
	if len(k.World.Nodes) == 1 {
		return nil, &failure.Error{Status: 424, Reason: "node is not in a cluster, no join info available!"}
	}
	name := cmp.Or(k.In["node"], k.Entry.Name)
	if k.World.Node(name) == nil {
		return nil, failure.New("unknown node '%s'", name)
	}
	var all []any
	for _, h := range k.World.Nodes {
		all = append(all, map[string]any{
			"name": h.Name, "nodeid": strconv.Itoa(h.ID), "quorum_votes": "1", "ring0_addr": h.IP, "pve_addr": h.IP, "pve_fp": fingerprint(k.World, h),
		})
	}
	return map[string]any{
		"nodelist": all, "preferred_node": name, "config_digest": fmt.Sprintf("%x", k.World.Access.Sign("corosync.conf"))[:40],
		"totem": map[string]any{
			"cluster_name": nameOf(k.World), "config_version": strconv.Itoa(len(k.World.Nodes)), "interface": map[string]any{"0": map[string]any{"linknumber": "0"}},
			"ip_version": "ipv4-6", "link_mode": "passive", "secauth": "on", "version": "2",
		},
	}, nil
}

// tagNotation is what a tag looks like in options.
const tagNotation = `(?i:[a-z0-9_][a-z0-9_\-\+\.]*)`

// optionProperties are the options that are property strings; the API shows them as objects.
var optionProperties = map[string]string{
	"bwlimit": `clone?:num[0..] default?:num[0..] migration?:num[0..] move?:num[0..] restore?:num[0..]`,
	"crs": `ha?:enum(basic,static,dynamic) ha-auto-rebalance?:bool ha-auto-rebalance-hold-duration?:num[0..]&ha-auto-rebalance
		ha-auto-rebalance-margin?:num[0..100]&ha-auto-rebalance ha-auto-rebalance-method?:enum(bruteforce,topsis)&ha-auto-rebalance
		ha-auto-rebalance-threshold?:num[0..100]&ha-auto-rebalance ha-rebalance-on-start?:bool`,
	"ha":          `shutdown_policy:enum(freeze,failover,conditional,migrate)`,
	"migration":   `*type:enum(secure,insecure) network?:CIDR`,
	"next-id":     `lower?:int upper?:int`,
	"notify":      `fencing?:enum(always,never) package-updates?:enum(auto,always,never) replication?:enum(always,never) target-fencing?:str target-package-updates?:str target-replication?:str`,
	"replication": `*type:enum(secure,insecure) network?:CIDR`,
	"tag-style": `case-sensitive?:bool color-map?:/(?:` + tagNotation + `:[0-9a-fA-F]{6}(?::[0-9a-fA-F]{6})?)(?:;` + tagNotation + `:[0-9a-fA-F]{6}(?::[0-9a-fA-F]{6})?)*/
		ordering?:enum(config,alphabetical) shape?:enum(full,circle,dense,none)`,
	"u2f":             `appid?:str origin?:str`,
	"user-tag-access": `user-allow?:enum(none,list,existing,free) user-allow-list?:/` + tagNotation + `(?:;` + tagNotation + `)*/`,
	"webauthn":        `allow-subdomains?:bool id?:str origin?:str rp?:str`,
}

// optionsNotation are the parameters of what sets options.
var optionsNotation = func() string {
	all := `consent-text?:str[..65536] console?:enum(applet,vv,html5,xtermjs) delete?:configid-list description?:str[..65536]
		email_from?:email-opt fencing?:enum(watchdog,hardware,both) http_proxy?:/http://.*/
		keyboard?:enum(de,de-ch,da,en-gb,en-us,es,fi,fr,fr-be,fr-ca,fr-ch,hu,is,it,ja,lt,mk,nl,no,pl,pt,pt-br,sv,sl,tr)
		language?:enum(ar,ca,da,de,en,es,eu,fa,fr,hr,he,it,ja,ka,kr,nb,nl,nn,pl,pt_BR,ru,sl,sv,tr,ukr,zh_CN,zh_TW)
		location?:node-location mac_prefix?:mac-prefix max_workers?:int[1..] migration_unsecure?:bool
		registered-tags?:/(?:` + tagNotation + `;)*` + tagNotation + `/`
	for _, name := range world.Sorted(optionProperties) {
		all += " " + name + "?:{" + optionProperties[name] + "}"
	}
	return all
}()

// optionSchema declares the options.
var optionSchema = sync.OnceValue(func() *params.Schema { return params.Declare(optionsNotation) })

// getOptions shows the options to callers that may see them, and to all which tags they may use.
func getOptions(k *api.Call) (any, error) {
	out := map[string]any{"allowed-tags": allowedTags(k.World, k.Who)}
	if !k.World.Access.May(k.Who, "/", "Sys.Audit") {
		return out, nil
	}
	out["description"], out["mac_prefix"] = "", "BC:24:11"
	for key, value := range k.World.Options {
		text, _ := value.(string)
		out[key] = optionSchema().Shown(key, text)
	}
	return out, nil
}

// setOptions changes some options and removes others.
func setOptions(k *api.Call) (any, error) {
	if err := k.World.LockFile(k.Process, k.Node, "datacenter_cfg"); err != nil {
		return nil, err
	}
	for key, value := range k.In {
		if key != "delete" {
			k.World.Options[key] = value
		}
	}
	for _, key := range k.In.List("delete") {
		delete(k.World.Options, key)
	}
	return nil, nil
}

// allowedTags are those that a caller may give and take: administrators all that there are, others
// what the options leave them.
func allowedTags(c *world.World, who *access.Identity) []string {
	text, _ := c.Options["user-tag-access"].(string)
	tags, _ := params.Declare(optionProperties["user-tag-access"]).Properties(text, "user-tag-access")
	registered, _ := c.Options["registered-tags"].(string)
	admin := c.Access.May(who, "/", "Sys.Modify")
	allow := tags.Or("user-allow", "free")
	all := map[string]bool{}
	if admin || allow != "none" {
		for _, tag := range tags.List("user-allow-list") {
			all[tag] = true
		}
	}
	if admin || allow == "free" || allow == "existing" {
		for id, m := range c.VMs {
			for _, tag := range params.SplitList(m.Conf["tags"]) {
				all[tag] = all[tag] || admin || c.Access.May(who, fmt.Sprintf("/vms/%d", id), "VM.Audit")
			}
		}
	}
	for _, tag := range params.SplitList(registered) {
		all[tag] = admin
	}
	maps.DeleteFunc(all, func(_ string, is bool) bool { return !is })
	return append([]string{}, world.Sorted(all)...)
}

// logged is a line of the cluster's log.
type logged struct {
	at   int64
	task *world.Task
	end  bool
}

// getLog lists how tasks began and ended, the newest first; of others' only to who may see the
// cluster.
func getLog(k *api.Call) (any, error) {
	audit := k.World.Access.May(k.Who, "/", "Sys.Audit")
	var lines []logged
	for _, h := range k.World.Nodes {
		for _, t := range h.Tasks {
			lines = append(lines, logged{t.Start.UnixNano(), t, false})
			if !t.Running() {
				lines = append(lines, logged{t.End.UnixNano(), t, true})
			}
		}
	}
	slices.SortStableFunc(lines, func(a, b logged) int { return cmp.Compare(a.at, b.at) })
	all := []any{}
	for i := len(lines) - 1; i >= 0 && len(all) < k.In.Int("max", len(lines)); i-- {
		if t := lines[i].task; audit || t.User == k.Who.User {
			all = append(all, lines[i].entry(i+1))
		}
	}
	return all, nil
}

func (l logged) entry(uid int) map[string]any {
	t := l.task
	e := map[string]any{
		"id": fmt.Sprintf("%d:%s", uid, t.Host.Name), "uid": strconv.Itoa(uid), "node": t.Host.Name, "user": t.By(), "tag": "pvedaemon",
		"pid": 77, "pri": 6, "time": l.at / 1e9, "msg": "starting task " + t.UPID,
	}
	if l.end {
		e["msg"] = fmt.Sprintf("end task %s %s", t.UPID, t.Exit)
		if t.Exit != "OK" && !strings.HasPrefix(t.Exit, "WARNINGS") {
			e["pri"] = 3
		}
	}
	return e
}
