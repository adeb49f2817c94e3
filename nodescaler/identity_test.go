package nodescaler

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// fleet is three machines; of the third only the name is known.
func fleet() []Machine {
	return []Machine{
		{Name: "w-1", ProviderID: "proxmox://r/1", SystemUUID: "aaaa-1"},
		{Name: "w-2", ProviderID: "proxmox://r/2", SystemUUID: "aaaa-2"},
		{Name: "w-3"},
		{Name: "w-4", SystemUUID: "12345678-1234-1234-1234-123456789abc"},
	}
}

func TestWhichMachineANodeIs(t *testing.T) {
	for _, c := range []struct {
		name    string
		node    Identity
		machine string // the node's machine
		held    string // names of the machines that a contradiction holds
	}{
		{name: "a stranger", node: Identity{Name: "other", ProviderID: "aws://x", SystemUUID: "bbbb"}},
		{name: "all three agree", node: Identity{Name: "w-1", ProviderID: "proxmox://r/1", SystemUUID: "aaaa-1"}, machine: "w-1"},
		{name: "the UUID in capitals", node: Identity{Name: "w-1", SystemUUID: "AAAA-1"}, machine: "w-1"},
		{name: "the UUID without hyphens", node: Identity{Name: "renamed", SystemUUID: " 12345678123412341234123456789ABC"}, machine: "w-4"},
		{name: "the UUID in the other byte order", node: Identity{Name: "renamed", SystemUUID: "78563412-3412-3412-1234-123456789abc"}, machine: "w-4"},
		{name: "a name of its own", node: Identity{Name: "w-1.example.org", ProviderID: "proxmox://r/1", SystemUUID: "aaaa-1"}, machine: "w-1"},
		{name: "a name and a provider ID of its own", node: Identity{Name: "renamed", ProviderID: "rke2://renamed", SystemUUID: "aaaa-1"}, machine: "w-1"},
		{name: "the UUID not reported yet", node: Identity{Name: "renamed", ProviderID: "proxmox://r/1"}, machine: "w-1"},
		{name: "only the name", node: Identity{Name: "w-1"}, machine: "w-1"},
		{name: "only the name is known of the machine", node: Identity{Name: "w-3", ProviderID: "proxmox://r/3", SystemUUID: "aaaa-3"}, machine: "w-3"},
		{name: "known by a label", node: Identity{Name: "renamed", Machine: "w-2"}, machine: "w-2"},
		{name: "another's provider ID", node: Identity{Name: "w-1", ProviderID: "proxmox://r/2", SystemUUID: "aaaa-1"}, machine: "w-2", held: "w-2 w-1"},
		{name: "another's provider ID, on a computer that is not ours", node: Identity{Name: "dup", ProviderID: "proxmox://r/2", SystemUUID: "bbbb"}, machine: "w-2", held: "w-2"},
		{name: "another's UUID", node: Identity{Name: "w-1", SystemUUID: "aaaa-2"}, machine: "w-2", held: "w-2 w-1"},
		{name: "the name on a computer that is not ours", node: Identity{Name: "w-1", SystemUUID: "bbbb"}, held: "w-1"},
		{name: "the name with a strange provider ID", node: Identity{Name: "w-1", ProviderID: "aws://x"}, held: "w-1"},
		{name: "another's label", node: Identity{Name: "w-1", Machine: "w-2"}, held: "w-2 w-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			machines := fleet()
			claim := NewIdentities(machines).Of(c.node)
			machine, held := "", ""
			if claim.Machine != nil {
				machine = claim.Machine.Name
			}
			if claim.Contradiction != nil {
				for i, m := range claim.Named {
					held += []string{"", " "}[min(i, 1)] + m.Name
				}
			}
			if machine != c.machine || held != c.held {
				t.Errorf("machine %q and held %q, want %q and %q (%v)", machine, held, c.machine, c.held, claim.Contradiction)
			}
		})
	}
}

func TestTwoNodesOfOneMachineHoldIt(t *testing.T) {
	ids := NewIdentities(fleet())
	got := ids.Contradictions([]Identity{
		{Name: "w-1", ProviderID: "proxmox://r/1", SystemUUID: "aaaa-1"}, {Name: "w-2", SystemUUID: "aaaa-2"},
		{Name: "zz-old", ProviderID: "proxmox://r/1", SystemUUID: "aaaa-1"},
	})
	want := map[string]Reason{"w-1": {Code: DuplicateNode, Text: "nodes w-1 and zz-old both claim machine w-1: delete the Node object that is wrong"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// In any order of nodes and with any claims, a machine is held if two nodes name it, or if a node
// that names it names another machine too. A machine that no node names is not held.
func TestContradictionsLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "said") }
		var nodes []Identity
		for i := range rapid.IntRange(0, 4).Draw(t, "nodes") {
			nodes = append(nodes, Identity{
				Name:       pick("w-1", "w-2", "w-3", fmt.Sprint("n-", i)),
				ProviderID: pick("", "proxmox://r/1", "proxmox://r/2", "aws://x"), SystemUUID: pick("", "aaaa-1", "AAAA-2", "bbbb"),
			})
		}
		ids := NewIdentities(fleet())
		held := ids.Contradictions(nodes)
		for _, m := range fleet() {
			naming, wrong := 0, false
			for _, n := range nodes {
				says := [3]bool{n.Name == m.Name, m.ProviderID != "" && n.ProviderID == m.ProviderID, m.SystemUUID != "" && upper(n.SystemUUID) == upper(m.SystemUUID)}
				denies := [3]bool{
					n.Name != m.Name && (n.Name == "w-1" || n.Name == "w-2" || n.Name == "w-3"),
					m.ProviderID != "" && n.ProviderID != "" && n.ProviderID != m.ProviderID && (!says[2] || n.ProviderID != "aws://x"),
					m.SystemUUID != "" && n.SystemUUID != "" && upper(n.SystemUUID) != upper(m.SystemUUID),
				}
				// Only its name is known, so the IDs of other machines are not its own.
				if m.Name == "w-3" {
					denies[1], denies[2] = n.ProviderID == "proxmox://r/1" || n.ProviderID == "proxmox://r/2", upper(n.SystemUUID) == "AAAA-1" || upper(n.SystemUUID) == "AAAA-2"
				}
				if says != [3]bool{} {
					naming++
					wrong = wrong || denies != [3]bool{}
				}
			}
			if _, is := held[m.Name]; is != (naming > 1 || wrong) {
				t.Fatalf("%s held: %v; named by %d nodes, contradicted: %v, of %+v", m.Name, held[m.Name], naming, wrong, nodes)
			}
		}
	})
}

func upper(s string) string {
	b := []byte(s)
	for i := range b {
		if 'a' <= b[i] && b[i] <= 'z' {
			b[i] -= 'a' - 'A'
		}
	}
	return string(b)
}

// Tools write one UUID in ways of their own: with dashes or without, large or small, and some with
// the first three fields in the other byte order.
func TestUUIDsOfOneMachine(t *testing.T) {
	const uuid = "12345678-9abc-def0-1122-334455667788"
	for _, c := range []struct {
		other string
		want  bool
	}{
		{uuid, true}, {" 12345678-9ABC-DEF0-1122-334455667788\n", true}, {"123456789abcdef01122334455667788", true},
		{"78563412-bc9a-f0de-1122-334455667788", true}, {"12345678-9abc-def0-1122-334455667789", false}, {"12345678", false}, {"", false},
	} {
		if a, b := SameUUID(uuid, c.other), SameUUID(c.other, uuid); a != c.want || b != c.want {
			t.Errorf("%q: %t, and %t the other way", c.other, a, b)
		}
	}
	if SameUUID("", "") || !SameUUID("short", "short") {
		t.Error("what is not known is not the same, and what is no UUID is the same as itself")
	}
}
