// Package faults is the language in which faults of a cluster are written, and what chooses those
// that strike. It is pure: it does nothing to a cluster, and what it draws follows from the seed.
package faults

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plimsoll/plimsoll/proxmox/pvesim/internal/access"
)

// Fault is something that goes wrong, as one line says it. See Forms for what lines there are.
type Fault struct {
	text string
	line int // of the text that it was read from
	form *form
	// arg is what was given for the words in capitals, and opt with a name; both are valid.
	arg, opt map[string]string
}

// String is the line.
func (f Fault) String() string { return f.text }

// Name is the form's small words, such as "host down"; empty of one that was not read.
func (f Fault) Name() string {
	if f.form == nil {
		return ""
	}
	return f.form.name
}

// Of is what it waits for: a task, a call, a boot, or nothing, as a state.
func (f Fault) Of() string {
	if f.form == nil {
		return ""
	}
	return f.form.of
}

// Arg is what is given for a word in capitals, and Opt for a name; empty if nothing is.
func (f Fault) Arg(word string) string { return f.arg[word] }

// Opt is what is given for a name.
func (f Fault) Opt(name string) string { return f.opt[name] }

// Line is the line that it is in, of the text that it was read from.
func (f Fault) Line() int { return f.line }

// Form is one form of a fault, and what it does.
type Form struct{ Form, Does string }

// Forms are all forms of faults.
func Forms() []Form {
	var all []Form
	for _, f := range forms {
		all = append(all, Form{f.form, f.does})
	}
	return all
}

// Selectors are what any fault can be given besides, to say when it strikes.
func Selectors() []Form {
	return []Form{
		{"at=DURATION", "not before so long after the cluster's beginning"},
		{"after=DURATION", "not before so long after the fault is put in"},
		{"for=DURATION", "no longer than that; without it, it lasts"},
		{"nth=COUNT", "only the event of that number: the third clone, the first such call"},
		{"every=COUNT", "every event whose number is a multiple; of a state, every=DURATION brings it back"},
		{"p=CHANCE", "each time with that chance, such as 0.1"},
		{"times=COUNT", "at most so often"},
		{"on=HOST", "only tasks that run there; only calls that are sent there"},
		{"vm=VMID", "only tasks of that virtual machine, of a clone its source; only its boots"},
		{"user=WHO", "only what that user or token asks for, such as auto@pve!t1"},
	}
}

// What a fault waits for. The selectors that it takes follow from it.
const (
	OfTask  = "task"
	OfCall  = "call"
	OfBoot  = "boot"
	OfState = "state"
)

var selectorsOf = map[string]string{
	OfTask:  "at=DURATION after=DURATION for=DURATION nth=COUNT every=COUNT p=CHANCE times=COUNT on=HOST vm=VMID user=WHO",
	OfCall:  "at=DURATION after=DURATION for=DURATION nth=COUNT every=COUNT p=CHANCE times=COUNT on=HOST user=WHO",
	OfBoot:  "at=DURATION after=DURATION for=DURATION nth=COUNT every=COUNT p=CHANCE times=COUNT on=HOST vm=VMID",
	OfState: "at=DURATION after=DURATION for=DURATION every=DURATION p=CHANCE times=COUNT",
}

// form is a form of fault. Words in small letters are literal, those in capitals are a
// kind of value, and those in brackets may be omitted.
type form struct {
	of, form, does string
	name           string // its small words
	words          []string
	options        map[string]string // kind of value by name, with ! where it must be given
}

const slowness = " [by=DURATION] [p50=DURATION p99=DURATION]"

// forms is the catalogue. The first form that a line fits is taken.
var forms = readForms([]form{
	{of: OfBoot, form: "fail boot", does: "the guest hangs while it boots: its agent never answers, without a report"},
	{of: OfBoot, form: "slow boot" + slowness, does: "the guest takes so much longer to boot"},
	{of: OfTask, form: "fail TASK [text=TEXT] [log=TEXT]", does: "the task ends with that error, below that line in its log, and clears up behind itself"},
	{of: OfTask, form: "kill task TASK", does: "the task's worker is killed: \"unexpected status\", and what it had done so far is left"},
	{of: OfTask, form: "warn TASK", does: "the task succeeds with WARNINGS: 1"},
	{of: OfTask, form: "slow TASK" + slowness, does: "the task takes so much longer"},
	{of: OfTask, form: "steal id [to=HOST]", does: "before a clone begins, a foreign virtual machine takes its identifier, on the clone's host or another"},
	{of: OfCall, form: "slow METHOD PATH" + slowness, does: "the answer comes so much later"},
	{of: OfCall, form: "lose answer METHOD PATH", does: "the call is carried out, and the connection breaks before its answer"},
	{of: OfCall, form: "drop METHOD PATH", does: "the connection breaks, and nothing is carried out"},
	{of: OfCall, form: "answer CODE METHOD PATH [text=TEXT]", does: "the call is answered so and not carried out, but for 596, which comes when it has taken 30 s and work goes on"},
	{of: OfCall, form: "unauthorized", does: "no user is known: calls with a token or a ticket are answered 401"},
	{of: OfState, form: "expire token WHO", does: "the token, such as auto@pve!t1, has expired"},
	{of: OfState, form: "revoke PRIVILEGE [from=WHO] [path=PATH]", does: "a privilege is taken from a user or token, or from all but root@pam and its tokens, below a path or everywhere"},
	{of: OfState, form: "lock vm=VMID [as=LOCK]", does: "the machine's file lock is held; with as=, its configuration says it is locked, such as by a backup"},
	{of: OfState, form: "crash vm=VMID", does: "the machine's process dies"},
	{of: OfState, form: "storage-lock STORAGE [on=HOST]", does: "the storage's lock is held"},
	{of: OfState, form: "full storage STORAGE [on=HOST]", does: "the storage has no room left"},
	{of: OfState, form: "agent slow by=DURATION [vm=VMID]", does: "guest agents answer so much later, and hold a worker of pvedaemon meanwhile"},
	{of: OfState, form: "freeze resources [on=HOST]", does: "hosts stop reporting their state: lists grow stale, and after five minutes unknown"},
	{of: OfState, form: "no quorum", does: "no host has quorum, though they reach each other"},
	{of: OfState, form: "host HOST down", does: "the host is off, with all that ran on it"},
	{of: OfState, form: "host HOST maintenance", does: "the host is in maintenance: high availability moves its machines away"},
	{of: OfState, form: "cut HOSTS from HOSTS", does: "calls between these hosts and those do not come through, though the cluster holds together"},
	{of: OfState, form: "cut HOSTS", does: "these hosts reach each other and none of the rest: who is left without a majority has no quorum"},
})

// readForms makes the forms ready to be matched.
func readForms(forms []form) []*form {
	var all []*form
	for _, f := range forms {
		f.options = map[string]string{}
		for word := range strings.FieldsSeq(strings.ReplaceAll(f.form, "]", "") + " " + selectorsOf[f.of]) {
			f.read(word)
		}
		f.name = strings.Join(slices.DeleteFunc(slices.Clone(f.words), func(w string) bool { return kinds[w].kept != nil }), " ")
		if strings.Contains(f.form, slowness) {
			f.options["p99"] = "DURATION"
		}
		all = append(all, &f)
	}
	return all
}

func (form *form) read(word string) {
	name, kind, option := strings.Cut(word, "=")
	if !option {
		form.words = append(form.words, word)
		return
	}
	bare := strings.TrimPrefix(name, "[")
	if _, own := form.options[bare]; own {
		return // a form's own option hides the selector
	}
	if bare == name && strings.Contains(form.form, word) {
		kind += "!"
	}
	form.options[bare] = kind
}

// Tasks are the kinds of tasks by the names that faults call them.
var Tasks = map[string]string{
	"any": "", "create": "qmcreate", "clone": "qmclone", "config": "qmconfig", "start": "qmstart", "stop": "qmstop",
	"shutdown": "qmshutdown", "reboot": "qmreboot", "reset": "qmreset", "pause": "qmpause", "resume": "qmresume",
	"destroy": "qmdestroy", "template": "qmtemplate", "snapshot": "qmsnapshot", "delsnapshot": "qmdelsnapshot",
	"rollback": "qmrollback", "resize": "resize", "migrate": "qmigrate", "hastart": "hastart", "hastop": "hastop",
	"upload": "imgcopy", "remove": "imgdel", "download": "download",
}

// kinds are what the words in capitals may be: a rule, and whether a text keeps it.
var kinds = map[string]struct {
	rule string
	kept func(string) bool
}{
	"TASK":      {"one of " + strings.Join(slices.Sorted(maps.Keys(Tasks)), ", "), func(s string) bool { _, ok := Tasks[s]; return ok }},
	"METHOD":    {"one of ANY, DELETE, GET, POST, PUT", func(s string) bool { return slices.Contains([]string{"ANY", "DELETE", "GET", "POST", "PUT"}, s) }},
	"PATH":      {"a path such as /nodes/*/qemu or …/clone", matches(`(/|…|\.\.\.)[^ ]*`)},
	"CODE":      {"a status from 400 to 599", matches(`[45]\d\d`)},
	"HOST":      {"a host's name", matches(`[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?`)},
	"HOSTS":     {"hosts' names with commas between", matches(`[A-Za-z0-9-]+(,[A-Za-z0-9-]+)*`)},
	"STORAGE":   {"a storage's name", matches(`[A-Za-z][A-Za-z0-9._-]*`)},
	"PRIVILEGE": {"a privilege of Proxmox VE such as VM.Audit", access.IsPrivilege},
	"WHO":       {"a user such as auto@pve, or a token such as auto@pve!t1", matches(`[^ @!]+@[^ @!]+(![^ !]+)?`)},
	"LOCK":      {"one of backup, clone, create, migrate, rollback, snapshot, snapshot-delete, suspended, suspending", isLock},
	"VMID":      {"a number from 100 up", matches(`[1-9]\d{2,8}`)},
	"COUNT":     {"a whole number from 1 up", matches(`[1-9]\d{0,8}`)},
	"CHANCE":    {"a number greater than 0, and at most 1", isChance},
	"DURATION":  {"a duration greater than 0 with its unit, such as 90s or 5m", isDuration},
	"TEXT":      {"a text that is not empty", func(s string) bool { return s != "" }},
}

func matches(pattern string) func(string) bool {
	return regexp.MustCompile(`^(?:` + pattern + `)$`).MatchString
}

func isLock(s string) bool {
	return slices.Contains(strings.Split("backup clone create migrate rollback snapshot snapshot-delete suspended suspending", " "), s)
}

func isChance(s string) bool {
	p, err := strconv.ParseFloat(s, 64)
	return err == nil && p > 0 && p <= 1
}

func isDuration(s string) bool {
	d, err := time.ParseDuration(s)
	return err == nil && d > 0
}

// Parse reads faults, one a line. What follows a # is a comment. All that is wrong is said at
// once, with the number of its line.
func Parse(text string) ([]Fault, error) {
	var all []Fault
	var wrong []error
	for i, line := range strings.Split(text, "\n") {
		words, err := faultWords(line)
		if err == nil && len(words) == 0 {
			continue
		}
		var f Fault
		if err == nil {
			f, err = parseFault(words)
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("line %d: %w", i+1, err))
			continue
		}
		f.line = i + 1
		all = append(all, f)
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return all, nil
}

// faultWords splits a line at its blanks, but not at those in quotes, and leaves its comment out.
func faultWords(line string) ([]string, error) {
	var words []string
	for rest := strings.TrimLeft(line, " \t\r"); rest != "" && rest[0] != '#'; rest = strings.TrimLeft(rest, " \t\r") {
		end := strings.IndexAny(rest, " \t\r\"")
		if end < 0 {
			end = len(rest)
		}
		if end < len(rest) && rest[end] == '"' {
			quoted, err := strconv.QuotedPrefix(rest[end:])
			if err != nil {
				return nil, fmt.Errorf("%s: must end with a quotation mark", rest)
			}
			end += len(quoted)
		}
		words = append(words, rest[:end])
		rest = rest[end:]
	}
	return words, nil
}

// parseFault reads one fault. A line that fits no form is measured by that which it fits for
// longest.
func parseFault(words []string) (Fault, error) {
	plain := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(w, "=") })
	fits, err := -1, error(nil)
	for _, form := range forms {
		n, why := form.fit(plain)
		if why == nil {
			return form.fault(words)
		}
		better := 2 * n
		if n < len(form.words) && kinds[form.words[n]].kept != nil {
			better++ // a rule says more than a word
		}
		if better > fits {
			fits, err = better, why
		}
	}
	if fits <= 0 {
		firsts := map[string]bool{}
		for _, form := range forms {
			firsts[form.words[0]] = true
		}
		return Fault{}, mustBeOf(words[0], "the first word", slices.Sorted(maps.Keys(firsts)))
	}
	return Fault{}, err
}

// fit compares a line's words with the form's, and says how many fit and what is wrong with the
// next.
func (form *form) fit(words []string) (int, error) {
	for i, want := range form.words {
		kind, isKind := kinds[want]
		switch {
		case i >= len(words):
			if !isKind {
				return i, fmt.Errorf("%s: must go on with %q", strings.Join(words, " "), want)
			}
			return i, fmt.Errorf("%s: must go on with %s", strings.Join(words, " "), kind.rule)
		case isKind && !kind.kept(words[i]):
			return i, WrongValue(strings.ToLower(want), kind.rule, words[i])
		case !isKind && words[i] != want:
			return i, fmt.Errorf("%s: must be %q, was %q", strings.Join(words[:i], " "), want, words[i])
		}
	}
	if len(words) > len(form.words) {
		return len(form.words), fmt.Errorf("%s: must end here or go on with name=value, was %q", strings.Join(form.words, " "), words[len(form.words)])
	}
	return len(words), nil
}

// fault reads a line whose words fit the form.
func (form *form) fault(words []string) (Fault, error) {
	f := Fault{text: strings.Join(words, " "), form: form, arg: map[string]string{}, opt: map[string]string{}}
	var wrong []error
	i := 0
	for _, word := range words {
		name, value, option := strings.Cut(word, "=")
		if option {
			wrong = append(wrong, f.set(name, value))
			continue
		}
		if _, isKind := kinds[form.words[i]]; isKind {
			key := form.words[i]
			if _, second := f.arg[key]; second {
				key = "FROM"
			}
			f.arg[key] = word
		}
		i++
	}
	if err := errors.Join(wrong...); err != nil {
		return f, err
	}
	for _, name := range slices.Sorted(maps.Keys(form.options)) {
		if _, given := f.opt[name]; !given && strings.HasSuffix(form.options[name], "!") {
			wrong = append(wrong, fmt.Errorf("%s: must be given for %s", name, form.form))
		}
	}
	wrong = append(wrong, f.checkSlowness())
	return f, errors.Join(wrong...)
}

// set gives the fault a value that has a name.
func (f *Fault) set(name, value string) error {
	kind, known := f.form.options[name]
	if !known {
		return mustBeOf(name, "an option of "+strings.Join(f.form.words, " "), slices.Sorted(maps.Keys(f.form.options)))
	}
	if _, twice := f.opt[name]; twice {
		return fmt.Errorf("%s: must be given once", name)
	}
	if text, err := strconv.Unquote(value); err == nil {
		value = text
	}
	rule := kinds[strings.TrimSuffix(kind, "!")]
	if !rule.kept(value) {
		return WrongValue(name, rule.rule, value)
	}
	f.opt[name] = value
	return nil
}

// checkSlowness wants one way to say how slow, and the two quantiles in order.
func (f *Fault) checkSlowness() error {
	if !strings.Contains(f.form.form, slowness) {
		return nil
	}
	_, by := f.opt["by"]
	_, p50 := f.opt["p50"]
	_, p99 := f.opt["p99"]
	switch {
	case by == p50:
		return errors.New("by, p50: one of them must be given")
	case p99 && !p50:
		return errors.New("p99: must be given with p50")
	case p99 && f.Duration("p99") < f.Duration("p50"):
		return fmt.Errorf("p99: must be at least p50, which is %s, was %q", f.opt["p50"], f.opt["p99"])
	}
	return nil
}

// Duration is a duration that was given, or 0.
func (f *Fault) Duration(name string) time.Duration {
	d, _ := time.ParseDuration(f.opt[name]) // what was given is valid
	return d
}

// Count is a number that was given, or 0.
func (f *Fault) Count(name string) int {
	n, _ := strconv.Atoi(f.opt[name])
	return n
}

// WrongValue is the error for a value that breaks its rule; if the rule counts values up, the
// nearest is asked for.
func WrongValue(name, rule, value string) error {
	known, ok := strings.CutPrefix(rule, "one of ")
	if ok {
		rule += meant(value, strings.Split(known, ", "))
	}
	return fmt.Errorf("%s: must be %s, was %q", name, rule, value)
}

func mustBeOf(word, what string, known []string) error {
	return fmt.Errorf("%s: %s must be one of %s%s, was %q", word, what, strings.Join(known, ", "), meant(word, known), word)
}

// meant asks whether the nearest of the known words was meant, if one is near.
func meant(word string, known []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return " (did you mean " + best + "?)"
}

// distance is how many letters must be changed, swapped, added or omitted to make one word of
// another.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
