package pve

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/plimsoll/plimsoll/pricing"
	"github.com/plimsoll/plimsoll/proxmox/intents"
	"github.com/plimsoll/plimsoll/proxmox/placement"
)

func aMark() mark {
	return mark{
		Owner: "home", Order: "mtim7pc0-0", Pool: "web", Shape: "small", VMID: 1001,
		Created: time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC), Stage: stageReady, Cluster: "a",
	}
}

func TestMarksAreReadBackFromNotes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z0-9][a-z0-9-]{0,10}[a-z0-9]`)
		m := mark{
			Owner: word.Draw(t, "owner"), Order: word.Draw(t, "order"), Pool: word.Draw(t, "pool"), Shape: word.Draw(t, "shape"),
			VMID: rapid.IntRange(100, 999_999_999).Draw(t, "vmid"), Created: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "ms")).UTC(),
			Stage:   rapid.SampledFrom([]stage{stageCloned, stageReady}).Draw(t, "stage"),
			Cluster: rapid.OneOf(rapid.Just(""), word).Draw(t, "cluster"),
		}
		i := intents.Intent{
			Order: m.Order, Pool: m.Pool, Name: m.Pool + "-" + m.Order, VMID: m.VMID, Created: m.Created, Cluster: m.Cluster,
			Shape: pricing.Shape{Name: m.Shape}, Why: rapid.String().Draw(t, "why"),
		}
		text := notes(&i, m.Owner, m.Stage, "8 EUR/h")
		if got, ok := readMark(text); !ok || got != m {
			t.Fatalf("got %v %+v, want %+v of\n%s", ok, got, m, text)
		}
		if len([]rune(text)) > 8192 {
			t.Fatalf("notes have %d characters", len([]rune(text)))
		}
	})
}

func TestBrokenMarksAreNone(t *testing.T) {
	good := aMark().String()
	for name, text := range map[string]string{
		"none":          "just notes",
		"two":           good + "\n" + good,
		"no owner":      strings.Replace(good, "owner=home ", "", 1),
		"no VMID":       strings.Replace(good, "vmid=1001 ", "", 1),
		"a VMID of x":   strings.Replace(good, "vmid=1001", "vmid=x", 1),
		"another stage": strings.Replace(good, "stage=ready", "stage=gone", 1),
		"a new key":     good + " more=1",
		"in a sentence": "see " + good,
		"two clusters":  good + " cluster=b",
		"two owners":    good + " owner=home",
		"no cluster":    strings.Replace(good, "cluster=a", "cluster=", 1),
		"a bad cluster": strings.Replace(good, "cluster=a", "cluster=a;b", 1),
	} {
		if m, ok := readMark(text); ok {
			t.Errorf("%s: read %+v", name, m)
		}
	}
}

func TestUUIDsAreOfVersion5AndDifferByOwnerAndOrder(t *testing.T) {
	a, b, c := machineUUID("home", "x"), machineUUID("home", "y"), machineUUID("hom", "ex")
	if a != machineUUID("home", "x") {
		t.Error("the same machine has two UUIDs")
	}
	if a == b || a == c || a[14] != '5' || !strings.ContainsRune("89ab", rune(a[19])) || len(a) != 36 {
		t.Errorf("got %s, %s and %s", a, b, c)
	}
}

// Every part of the proof, one missing at a time.
func TestProof(t *testing.T) {
	whole := claim{owner: "home", order: "mtim7pc0-0", pool: "web", name: "web-mtim7pc0-0", pvePools: []string{"plimsoll", "next"}, vmids: placement.VMIDs{First: 1000, Last: 1099}, vmid: 1001, cluster: allegiance{uid: "a"}}
	ready := func(change func(*facts)) facts {
		f := facts{
			vmid: 1001, name: whole.name, pool: "plimsoll", tags: []string{"extra", "plimsoll_home"}, notes: "mine\n" + aMark().String(),
			uuid: strings.ToUpper(machineUUID("home", whole.order)),
		}
		change(&f)
		return f
	}
	cloned := func(change func(*facts)) facts {
		m := aMark()
		m.Stage = stageCloned
		f := ready(func(f *facts) {
			f.notes, f.uuid, f.tags = m.String(), "7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f", []string{"golden"}
		})
		change(&f)
		return f
	}
	same := func(*facts) {}
	otherNotes := func(change func(*mark)) func(*facts) {
		return func(f *facts) {
			m, _ := readMark(f.notes)
			change(&m)
			f.notes = m.String()
		}
	}
	for _, c := range []struct {
		name string
		f    facts
		want verdict
		says string
	}{
		{"everything", ready(same), provedReady, ""},
		{"a clone that is not configured yet", cloned(same), provedCloned, ""},
		{"a VMID out of range", ready(func(f *facts) { f.vmid = 2001 }), doubtful, "its VMID is 2001, not 1001"},
		{"the pool that takes its pool's place", ready(func(f *facts) { f.pool = "next" }), provedReady, ""},
		{"another VMID of ours", ready(func(f *facts) { f.vmid = 1002 }), doubtful, "its VMID is 1002, not 1001"},
		{"another name", ready(func(f *facts) { f.name = "db" }), doubtful, `its name is "db", not "web-mtim7pc0-0"`},
		{"another pool", ready(func(f *facts) { f.pool = "mine" }), doubtful, `it is in pool "mine"`},
		{"no pool", ready(func(f *facts) { f.pool = "" }), doubtful, `it is in pool ""`},
		{"a pool that cannot be seen", ready(func(f *facts) { f.pool, f.hidden = "", true }), unproved, "it is not seen to be in pool plimsoll"},
		{"no tag", ready(func(f *facts) { f.tags = nil }), doubtful, "it lacks the tag plimsoll_home"},
		{"another owner's tag", ready(func(f *facts) { f.tags = []string{"plimsoll_away"} }), doubtful, "it lacks the tag plimsoll_home"},
		{"another UUID", ready(func(f *facts) { f.uuid = "7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f" }), doubtful, "its system UUID is 7d9a0d7c"},
		{"no notes", ready(func(f *facts) { f.notes = "" }), doubtful, "its notes do not hold our mark"},
		{"notes of another owner", ready(otherNotes(func(m *mark) { m.Owner = "away" })), doubtful, "its notes do not hold our mark"},
		{"notes of another order", ready(otherNotes(func(m *mark) { m.Order = "other" })), doubtful, "its notes do not hold our mark"},
		{"notes of another VMID, as a copy has", ready(otherNotes(func(m *mark) { m.VMID = 1005 })), doubtful, "its notes do not hold our mark for VMID 1001"},
		{"notes of another cluster", ready(otherNotes(func(m *mark) { m.Cluster = "b" })), doubtful, "its notes hold the mark of cluster b, and this is cluster a"},
		{"a clone of another cluster", cloned(otherNotes(func(m *mark) { m.Cluster = "b" })), doubtful, "its notes hold the mark of cluster b, and this is cluster a"},
		{"notes that name no cluster", ready(otherNotes(func(m *mark) { m.Cluster = "" })), unproved, "do not name the cluster"},
		{"notes that name no cluster, in another pool", ready(func(f *facts) { otherNotes(func(m *mark) { m.Cluster = "" })(f); f.pool = "mine" }), doubtful, "it is in pool"},
		{"the lock of a clone", ready(func(f *facts) { f.lock = "clone" }), unproved, "it is still being cloned"},
		{"what a clone shows at first", facts{vmid: 1001, lock: "clone", notes: " qmclone temporary file"}, unproved, "it is still being cloned"},
		{"a clone with another name", cloned(func(f *facts) { f.name = "Copy-of-VM-x" }), doubtful, "its name is"},
		{"a clone with the notes of another owner", cloned(otherNotes(func(m *mark) { m.Owner = "away" })), doubtful, "its notes do not hold our mark"},
		{"a clone with the notes of another order", cloned(otherNotes(func(m *mark) { m.Order = "other" })), doubtful, "its notes do not hold our mark"},
		{"a clone in no pool yet", cloned(func(f *facts) { f.pool = "" }), doubtful, "it is in pool"},
		{"another owner's machine", facts{vmid: 1001, name: "db", uuid: "7d9a0d7c-3b7d-4f55-8f0a-1a2b3c4d5e6f"}, stranger, "its name is db"},
		{"another owner's machine of our name", facts{vmid: 1001, name: whole.name}, doubtful, "its notes do not hold our mark"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, wrong := whole.judge(c.f)
			if got != c.want || !strings.Contains(list(wrong), c.says) || (c.says == "") != (len(wrong) == 0) {
				t.Errorf("got %s (%s), want %s (%s)", got, list(wrong), c.want, c.says)
			}
		})
	}
}

func TestDiscsOfOwnersWhoseNamesContinueEachOther(t *testing.T) {
	if a, b := seedDisc("home", "web-1"), discPrefix("hom"); strings.HasPrefix(a, b) {
		t.Errorf("%s is found by %s", a, b)
	}
	if name := seedDisc("a+b", "web-1"); !regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,250}\.(iso|img)$`).MatchString(name) {
		t.Errorf("%s cannot be uploaded as it is", name)
	}
}

// How a machine was made is in its notes beside the mark, and programs that do not know the
// line still read the mark.
func TestNotesSayHowAMachineWasMade(t *testing.T) {
	i := intents.Intent{Order: "mtim7pc0-0", Pool: "web", Name: "web-mtim7pc0-0", VMID: 1001, Created: time.Unix(1, 0), Making: intents.Making{Settings: "2:0123456789ab", Original: "9001@abc", Version: "v1.34.1+rke2r1", VMIDs: placement.VMIDs{First: 1000, Last: 1099}}}
	text := notes(&i, "home", stageReady, "")
	if _, ok := readMark(text); !ok {
		t.Errorf("no mark in %s", text)
	}
	back := intents.Intent{VMID: 1001}
	if readMade(text, &back); back.VMIDs != i.VMIDs {
		t.Errorf("got %s from %s", back.VMIDs, text)
	}
	other := intents.Intent{VMID: 2001}
	if readMade(text, &other); other.VMIDs != (placement.VMIDs{}) {
		t.Errorf("VM 2001 was made in %s", other.VMIDs)
	}
	if back.Settings != i.Settings || back.Original != i.Original || back.Version != i.Version {
		t.Errorf("got %q, %q and %q from %s", back.Settings, back.Original, back.Version, text)
	}
	i.Settings = ""
	if text := notes(&i, "home", stageReady, ""); strings.Contains(text, madePrefix) {
		t.Errorf("what is not known is said: %s", text)
	}
}
