package pvesim

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/reference"
)

// difference is one thing that the emulator does otherwise, with the part of the answer it is in.
type difference struct{ part, text string }

type differences []difference

func (d *differences) add(part, text string, args ...any) {
	*d = append(*d, difference{part, fmt.Sprintf(text, args...)})
}

// answers compares an answer with the recorded one.
func (d *differences) answers(p *player, r *reference.Record, a *answered) {
	want := r.Response
	if want.Exception != "" {
		if a.problem == nil {
			d.add("answer", "there is one, recorded %s", want.Exception)
		}
		return
	}
	if a.problem != nil {
		d.add("answer", "there is none: %v", a.problem)
		return
	}
	if a.status != want.Status {
		d.add("status", "%d %s, recorded %d %s", a.status, a.reason, want.Status, want.Reason)
		return
	}
	if got := p.plain(a.reason); got != p.plain(want.Reason) {
		d.add("reason", "%q, recorded %q", a.reason, want.Reason)
	}
	d.headers(want, a)
	d.time(want, a)
	d.bodies(p, want.Data(), a.data())
	for _, problem := range a.schema {
		d.add("schema", "%s", problem)
	}
}

// headers compares what says how the body is to be read.
func (d *differences) headers(want *reference.Response, a *answered) {
	for _, name := range []string{"Content-Type", "Server"} {
		if got := a.header.Get(name); got != want.Headers[name] && want.Headers != nil {
			d.add("header "+name, "%q, recorded %q", got, want.Headers[name])
		}
	}
	if _, has := want.Headers["Content-Length"]; has != (a.length >= 0) && want.Headers != nil {
		d.add("header Content-Length", "told: %t, recorded %t", a.length >= 0, has)
	}
}

// time compares what waits there were. What is quick may differ: the recorded machine was small.
func (d *differences) time(want *reference.Response, a *answered) {
	was := time.Duration(want.MS * float64(time.Millisecond))
	switch {
	case want.MS == 0: // not measured
	case was < 2*time.Second && a.took >= 1500*time.Millisecond:
		d.add("time", "%s, recorded %s", a.took, was)
	case was < 2*time.Second:
	case want.Status == 595 && want.Reason == "No route to host":
		// A host that was there takes 2 to 20 s to be missed.
		if a.took < 2*time.Second || a.took > 21*time.Second {
			d.add("time", "%s, recorded %s", a.took, was)
		}
	case math.Abs((a.took - was).Seconds()) > max(0.15*was.Seconds(), 0.5):
		d.add("time", "%s, recorded %s", a.took, was)
	}
}

func (d *differences) bodies(p *player, want, got any) {
	wantObject, isObject := want.(map[string]any)
	gotObject, isObjectToo := got.(map[string]any)
	if !isObject || !isObjectToo {
		if want == nil {
			want = ""
		}
		if fmt.Sprint(want) != fmt.Sprint(got) {
			d.add("body", "%v, recorded %v", got, want)
		}
		return
	}
	// What is wrong with one parameter is one difference.
	wantErrors, _ := wantObject["errors"].(map[string]any)
	gotErrors, _ := gotObject["errors"].(map[string]any)
	for key, text := range wantErrors {
		if gotErrors[key] == nil || p.plain(fmt.Sprint(text)) != p.plain(fmt.Sprint(gotErrors[key])) {
			d.add("errors."+key, "%q, recorded %q", gotErrors[key], text)
		}
	}
	for key, text := range gotErrors {
		if wantErrors[key] == nil {
			d.add("errors."+key, "%q, recorded none", text)
		}
	}
	for _, key := range everyKeyOf(wantObject, gotObject) {
		if key != "errors" {
			d.field(p, key, key, wantObject, gotObject)
		}
	}
}

func everyKeyOf(objects ...map[string]any) []string {
	all := map[string]bool{}
	for _, o := range objects {
		for key := range o {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// field compares one key of two objects.
func (d *differences) field(p *player, path, key string, want, got map[string]any) {
	w, wanted := want[key]
	g, there := got[key]
	switch {
	case wanted && !there:
		d.add(path, "is missing, recorded %s", asJSON(w))
	case !wanted:
		d.add(path, "is %s, recorded none", asJSON(g))
	default:
		d.compare(p, path, w, g)
	}
}

func asJSON(v any) string {
	data, _ := json.Marshal(v)
	return shortened(string(data))
}

// compare compares two values: their types, everything in them, and themselves unless they are
// measured.
func (d *differences) compare(p *player, path string, want, got any) {
	switch want := want.(type) {
	case map[string]any:
		object, ok := got.(map[string]any)
		if !ok {
			d.add(path, "is %s, recorded an object", asJSON(got))
			return
		}
		for _, key := range everyKeyOf(want, object) {
			d.field(p, path+"."+key, key, want, object)
		}
	case []any:
		list, ok := got.([]any)
		if !ok {
			d.add(path, "is %s, recorded a list", asJSON(got))
			return
		}
		d.lists(p, path, want, list)
	default:
		d.scalars(p, path, want, got)
	}
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case json.Number:
		return "number"
	case map[string]any:
		return "object"
	case []any:
		return "list"
	}
	return fmt.Sprintf("%T", v)
}

// measured are fields whose value is measured, or depends on the machine under the recorded server.
// Only their type is compared.
var measured = regexp.MustCompile(`(^|\.)(` + strings.Join([]string{
	// Load.
	`cpu|mem|memhost|disk|diskread|diskwrite|netin|netout|uptime|pressure\w+|loadavg|idle|wait`,
	// Room.
	`avail|available|free|used|used_fraction|rootfs\.total|swap\.total|memory\.total`,
	// When, and who did it.
	`pid|pstart|starttime|endtime|time|ctime|snaptime`,
	`total`, // how long a list is whose beginning no one recorded
	`cpuinfo\.\w+|current-kernel\.\w+|kversion|boot-info\.\w+|ksm\.shared`, // the machine
}, "|") + `)$`)

func (d *differences) scalars(p *player, path string, want, got any) {
	if kindOf(want) != kindOf(got) {
		d.add(path, "is %s, recorded %s", asJSON(got), asJSON(want))
		return
	}
	if measured.MatchString(inBrackets.ReplaceAllString(path, "")) {
		return
	}
	w, g := fmt.Sprint(want), fmt.Sprint(got)
	if strings.HasSuffix(path, ".content") { // listed in any order
		w, g = sortedList(w), sortedList(g)
	}
	if _, isText := want.(string); isText {
		w, g = p.plain(w), p.plain(g)
	}
	if w != g {
		d.add(path, "is %s, recorded %s", asJSON(got), asJSON(want))
	}
}

var inBrackets = regexp.MustCompile(`\[[^\]]*\]`)

func sortedList(s string) string {
	items := strings.Split(s, ",")
	slices.Sort(items)
	return strings.Join(items, ",")
}

// identities are the keys that distinguish the items of lists, the best first.
var identities = []string{
	"upid", "uid", "id", "vmid", "volid", "key", "subdir", "tokenid", "storage", "ugid", "sid", "userid",
	"realm", "roleid", "node", "poolid", "name", "drivename", "rule", "n",
}

// drawnIdentity are keys whose values are others in the emulator: such items are compared by what
// all have.
var drawnIdentity = map[string]bool{"upid": true, "uid": true}

// lists compares lists: item by item where the items can be distinguished, or all of one with all
// of the other. The server does not sort most of them.
func (d *differences) lists(p *player, path string, want, got []any) {
	if (len(want) == 0) != (len(got) == 0) {
		d.add(path, "has %d items, recorded %d: %s", len(got), len(want), asJSON(got))
		return
	}
	identity := identityOf(want)
	switch {
	case len(want) == 0:
	case identity == "":
		if _, isObject := want[0].(map[string]any); isObject {
			d.shapes(path, want, got)
			return
		}
		d.scalarLists(p, path, want, got)
	case drawnIdentity[identity]:
		d.shapes(path, want, got)
	default:
		d.items(p, path, identity, want, got)
	}
}

// identityOf is the key that distinguishes the items; empty without one.
func identityOf(list []any) string {
	for _, key := range identities {
		seen := map[string]bool{}
		for _, item := range list {
			item, _ := item.(map[string]any)
			if id, ok := item[key]; ok {
				seen[fmt.Sprint(id)] = true
			}
		}
		if len(seen) == len(list) {
			return key
		}
	}
	return ""
}

func (d *differences) scalarLists(p *player, path string, want, got []any) {
	if measured.MatchString(inBrackets.ReplaceAllString(path, "")) {
		if len(want) != len(got) || kindOf(want[0]) != kindOf(got[0]) {
			d.add(path, "is %s, recorded %s", asJSON(got), asJSON(want))
		}
		return
	}
	text := func(list []any) []string {
		var all []string
		for _, v := range list {
			all = append(all, kindOf(v)+" "+p.plain(fmt.Sprint(v)))
		}
		slices.Sort(all)
		return all
	}
	if !slices.Equal(text(want), text(got)) {
		d.add(path, "is %s, recorded %s", asJSON(got), asJSON(want))
	}
}

// items compares item by item.
func (d *differences) items(p *player, path, identity string, want, got []any) {
	byID := map[string]any{}
	for _, item := range got {
		object, _ := item.(map[string]any)
		byID[p.plain(fmt.Sprint(object[identity]))] = item
	}
	for _, item := range want {
		id := fmt.Sprint(item.(map[string]any)[identity])
		at := path + "[" + id + "]"
		if other, ok := byID[p.plain(id)]; ok {
			d.compare(p, at, item, other)
			delete(byID, p.plain(id))
		} else {
			d.add(at, "is missing, recorded %s", asJSON(item))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		d.add(path+"["+id+"]", "is %s, recorded none", asJSON(byID[id]))
	}
}

// shapes compares what keys items have, with which types.
func (d *differences) shapes(path string, want, got []any) {
	w, g := kindsOf(want), kindsOf(got)
	for _, key := range slices.Sorted(maps.Keys(w)) {
		if g[key] != w[key] {
			d.add(path+"[]."+key, "is %s, recorded %s", orNone(g[key]), w[key])
		}
	}
	for _, key := range slices.Sorted(maps.Keys(g)) {
		if w[key] == "" {
			d.add(path+"[]."+key, "is %s, recorded none", g[key])
		}
	}
}

func orNone(s string) string {
	if s == "" {
		return "missing"
	}
	return s
}

// union is every key of the items, with the types it has in them.
func kindsOf(list []any) map[string]string {
	kinds := map[string]map[string]bool{}
	for _, item := range list {
		object, _ := item.(map[string]any)
		for key, value := range object {
			if kinds[key] == nil {
				kinds[key] = map[string]bool{}
			}
			kinds[key][kindOf(value)] = true
		}
	}
	all := map[string]string{}
	for key, of := range kinds {
		all[key] = strings.Join(slices.Sorted(maps.Keys(of)), " or ")
	}
	return all
}

// patterns are parts of texts that are drawn, counted or measured, and what replaces them.
var patterns = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`UPID:(\w+):[0-9A-F]{8}:[0-9A-F]{8,9}:[0-9A-F]{8}:`), "UPID:$1:PID:PSTART:START:"},
	{regexp.MustCompile(`\.conf\.tmp\.\d+`), ".conf.tmp.PID"},
	{regexp.MustCompile(`/var/tmp/pveupload-[0-9a-f]+`), "/var/tmp/pveupload-ID"},
	{regexp.MustCompile(`([0-9A-Fa-f]{2}:){31}[0-9A-Fa-f]{2}`), "FINGERPRINT"},
	{regexp.MustCompile(`(?:TOKEN-)?SECRET-UUID|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "UUID"},
	{regexp.MustCompile(`\b[0-9a-f]{40}\b`), "DIGEST"},
	{regexp.MustCompile(`(?i)\bBC:24:11(:[0-9a-f]{2}){3}\b`), "MAC"},
	{regexp.MustCompile(`\bctime=\d+`), "ctime=TIME"},
	{regexp.MustCompile(`\$5\$[^\s]+`), "$$5$$CRYPT"},
	{regexp.MustCompile(`PVE:root@pam:[0-9A-F]{8}::\S+`), "PVE:root@pam:TIMESTAMP::SIGNATURE"},
	{regexp.MustCompile(`^[0-9A-F]{8}:[A-Za-z0-9+/=]+$`), "TIMESTAMP:HASH"},
	{regexp.MustCompile(`\bcreation-qemu=[\d.]+`), "creation-qemu=VERSION"},
}

// plain is a text without what is another one each time.
func (p *player) plain(s string) string {
	for _, x := range patterns {
		s = x.of.ReplaceAllString(s, x.as)
	}
	return s
}

// learn remembers the emulator's ids for the recorded ones, and what tokens were made.
func (p *player) learn(r *reference.Record, a *answered) {
	p.pair(r.Response.Data(), a.data())
	body, _ := a.data().(map[string]any)
	data, _ := body["data"].(map[string]any)
	if id, ok := data["full-tokenid"].(string); ok {
		p.secrets[id], _ = data["value"].(string)
	}
	if ticket, ok := data["ticket"].(string); ok {
		p.ticket = ticket
		p.csrf, _ = data["CSRFPreventionToken"].(string)
	}
}

var drawnText = regexp.MustCompile(`^(UPID:.*|[0-9a-f]{40})$`)

// pair walks two answers side by side.
func (p *player) pair(want, got any) {
	switch want := want.(type) {
	case map[string]any:
		got, _ := got.(map[string]any)
		for key, value := range want {
			p.pair(value, got[key])
		}
	case string:
		if got, ok := got.(string); ok && drawnText.MatchString(want) && drawnText.MatchString(got) && p.ours[want] == "" {
			p.ours[want] = got
		}
	}
}
